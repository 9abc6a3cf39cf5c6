#!/usr/bin/env node
import { main } from './main.ts';
import { processTerminal } from './terminal.ts';

process.exitCode = await main(process.argv.slice(2), processTerminal());
