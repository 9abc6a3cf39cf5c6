/** What a run's events note, a line each; of events that differ in numbers alone the first. */
export function notesText(notes: readonly string[]): string {
  const first = new Map([...notes].reverse().map((note) => [note.replace(/\d[\d.]*/g, '#'), note]));
  return [...first.values()]
    .reverse()
    .map((note) => `note: ${note}\n`)
    .join('');
}
