// Parses the message of a webhook of Teams on stdin with Microsoft's own library for Adaptive Cards, and prints
// the texts of its runs. The argument is the path of the library.
const cards = require(process.argv[2]);
const message = JSON.parse(require("fs").readFileSync(0, "utf8"));
if (message.type !== "message" || message.attachments.length !== 1 || message.attachments[0].contentType !== "application/vnd.microsoft.card.adaptive") {
  throw new Error("not a message with a card");
}
const card = new cards.AdaptiveCard();
const context = new cards.SerializationContext();
card.parse(message.attachments[0].content, context);
const problems = [];
for (let i = 0; i < context.eventCount; i++) problems.push(context.getEventAt(i).message);
for (const event of card.validateProperties().validationEvents) problems.push(event.message);
if (card.getItemCount() === 0) problems.push("the card is empty");
if (problems.length > 0) throw new Error(problems.join("; "));
for (let i = 0; i < card.getItemCount(); i++) {
  const block = card.getItemAt(i);
  for (let j = 0; j < block.getInlineCount(); j++) console.log(block.getInlineAt(j).text);
}
