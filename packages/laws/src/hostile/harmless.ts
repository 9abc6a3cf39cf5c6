// Reasons why a fault is harmless, alone and by the name of the fault.
export const MASK = 'anything but 0 marks a slot';
export const OWN = 'a piece may store any numbers: only the scores that it computes from them are checked';
export const NOTHING = 'an absent value is allowed';
export const masks = { NaN: MASK, Infinity: MASK, '-Infinity': MASK, 'a negative number': MASK };
export const owned = { NaN: OWN, Infinity: OWN, '-Infinity': OWN, 'a negative number': OWN };
export const optional = { undefined: NOTHING };
export const LESS = 'a piece may keep fewer slots than its budget';
export const CLAMPED = 'a fraction is rounded up to a position, and a position outside the text is clamped to it';
export const places = { Infinity: CLAMPED, '-Infinity': CLAMPED, '-1': CLAMPED, '1.5': CLAMPED };
export const EMPTY = 'an empty result changes nothing';
