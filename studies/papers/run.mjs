// npm run -s study -- papers [--row NAMES] [--n N] [--model MODEL] [--list] [--help]
await import('../dist/bin.js');
