#!/usr/bin/env node
import { runWithName } from '@kv/create-piece/template';
import { createApp } from './create.mjs';

const HELP = `npm create @kv/app NAME

Makes the folder NAME: a page with a chat whose cache stays at a budget, built by Vite.
NAME is lower-case words joined by '-', such as my-chat.

Example:
  $ npm create @kv/app my-chat`;

runWithName('create-app', HELP, (name) => {
  const folder = createApp(process.cwd(), name);
  return `${folder} is ready:\n  cd ${folder}\n  npm install\n  npm run dev      # the chat, on this machine\n  npm run build    # dist, for any static server\nsettings.js names the model, the policy and the budget.`;
});
