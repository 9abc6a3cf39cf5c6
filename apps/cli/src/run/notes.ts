/** Formats the notes of a run's events, a line each; of notes that differ only in numbers, the first. */
export function notesText(notes: readonly string[]): string {
  const first = new Map([...notes].reverse().map((note) => [note.replace(/\d[\d.]*/g, '#'), note]));
  return [...first.values()]
    .reverse()
    .map((note) => `note: ${note}\n`)
    .join('');
}
