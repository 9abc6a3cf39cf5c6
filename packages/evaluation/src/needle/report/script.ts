/** Script of the report, plain JavaScript: shades the text for the selected policy, budget and mode. */
export const script = `
(() => {
  const source = document.getElementById('data');
  if (!source) return;
  const { rows, kept, answers, value, valueTokens, arms } = JSON.parse(source.textContent);
  const choose = (id) => document.getElementById(id);
  const spans = [...document.querySelectorAll('#kept [data-t]')];
  const show = () => {
    const policy = Number(choose('policy').value), mode = choose('mode').value, budget = choose('budget').value;
    const whole = arms.every((arm) => arm[0] !== policy || arm[1] === null);
    choose('budget').disabled = whole;
    const arm = arms.findIndex((w) => w[0] === policy && w[2] === mode && (whole || w[1] === budget));
    if (arms[arm][3] !== null) {
      for (const span of spans) span.style.setProperty('--k', '0');
      choose('said').textContent = 'Not run: this policy forces ' + arms[arm][3] + ' slots in every head, more than the budget.';
      return;
    }
    const counts = Uint8Array.from(atob(kept[arm]), (c) => c.charCodeAt(0));
    for (const span of spans) {
      const count = counts[Number(span.dataset.t)];
      span.style.setProperty('--k', (count / rows).toFixed(3));
      span.classList.toggle('gone', count === 0);
      span.title = count + ' of ' + rows;
    }
    const mean = valueTokens.reduce((sum, t) => sum + counts[t], 0) / valueTokens.length;
    const { text, hit } = answers[arm];
    choose('said').innerHTML = '';
    choose('said').append('The model said ', Object.assign(document.createElement('strong'), { textContent: text || 'nothing', className: hit ? 'right' : 'wrong' }),
      hit ? ', which is right. ' : ', which is wrong: it is ' + value + '. ', 'A token of the value is kept by ' + mean.toFixed(1) + ' of ' + rows + ' on average.');
  };
  document.querySelector('form.choose').addEventListener('submit', (event) => event.preventDefault());
  for (const id of ['policy', 'budget', 'mode']) choose(id).addEventListener('change', show);
  show();
})();
`;
