/** A customer and an agent of a shop: a fact comes early and is asked for at the end. */
export const conversation = `Anna: Hi, I moved house. Can you change the address of my order?
Agent: Of course. Which street is it now?
Anna: 12 River Road, the red house by the bridge.
Agent: Thank you, it is changed. Your voucher code is: XK7M9P2Q.
Anna: That is kind! When will my order come?
Agent: On Friday morning, before ten.
Anna: I am away on Friday. Could the neighbours take it?
Agent: Yes, I have made a note for the driver.
Anna: And can I send one of the lamps back? It is too big for the table.
Agent: You can, within thirty days. Keep the box and show the driver the picture on your phone.
Anna: Perfect. Do you still have the small lamp in green?
Agent: We do, four of them are left. Shall I put one aside for you?
Anna: Yes please, I will pay for it when I send the big one back.
`;

/** What is asked after it, and how the answer begins. */
export const question = `Anna: And what was my voucher code?
Agent: Your voucher code is:`;

/** What the answer must contain. */
export const fact = 'XK7M9P2Q';
