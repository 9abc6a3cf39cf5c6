/** Topics, facts and mentions of CrystalCache, appendix B.1; `{v}` is the value. */
export const TOPICS = [
  {
    key: 'Aurora',
    name: 'Project Aurora',
    fact: 'The secret code for Project Aurora is {v}.',
    question: 'What is the secret code for Project Aurora?',
    high: [
      "The team discussed Project Aurora's timeline and milestones.",
      'Progress reports for Project Aurora were reviewed by management.',
      'The Aurora initiative has been a key focus this quarter.',
      "Resources were reallocated to support Project Aurora's goals.",
    ],
    low: [
      'Various projects were discussed in the meeting.',
      'The quarterly review covered several ongoing initiatives.',
    ],
  },
  {
    key: 'Nightingale',
    name: 'Agent Nightingale',
    fact: "Agent Nightingale's extraction point is {v}.",
    question: "What is Agent Nightingale's extraction point?",
    high: [
      'Agent Nightingale reported in from the field yesterday.',
      "The handler confirmed Nightingale's cover remains intact.",
      "Updates on Nightingale's mission status were classified.",
      "Nightingale's next check-in is scheduled for tomorrow.",
    ],
    low: ['Field agents continued standard operations.', 'Status updates were provided for all active agents.'],
  },
  {
    key: 'Formula',
    name: 'Formula X',
    fact: 'The activation temperature for Formula X is {v} degrees.',
    question: 'What is the activation temperature for Formula X in degrees?',
    high: [
      'Formula X showed promising results in the latest trial.',
      "The researchers adjusted Formula X's concentration levels.",
      'Testing of Formula X continues in Lab 7.',
      'Formula X outperformed all other candidate compounds.',
    ],
    low: ['Laboratory experiments continued as scheduled.', 'Multiple formulas were tested this week.'],
  },
] as const;
