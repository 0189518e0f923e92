// Asks a server through the official Node client; arguments: address, model, requests as JSON. Prints what came, as JSON.

import { createRequire } from "node:module";

const OpenAI = createRequire(`${process.env.CLIENT_FOLDER}/`)("openai").OpenAI;
const [address, model, requests] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `http://${address}/v1`, apiKey: "none", maxRetries: 0 });
const answers = [];
for (const request of JSON.parse(requests)) {
  const { extra_body: extra, ...fields } = request;
  const body = { model, ...fields, ...extra };
  const whole = await client.chat.completions.create(body);
  const streamed = { calls: [], text: "", reasons: [], tokens: null };
  const options = { stream: true, stream_options: { include_usage: true } };
  for await (const chunk of await client.chat.completions.create({ ...body, ...options })) {
    streamed.tokens = chunk.usage?.total_tokens ?? streamed.tokens;
    for (const choice of chunk.choices) {
      streamed.text += choice.delta.content ?? "";
      for (const piece of choice.delta.tool_calls ?? []) {
        const call = (streamed.calls[piece.index] ??= { name: "", arguments: "" });
        call.name += piece.function.name ?? "";
        call.arguments += piece.function.arguments ?? "";
      }
      if (choice.finish_reason) streamed.reasons.push(choice.finish_reason);
    }
  }
  const { message, finish_reason } = whole.choices[0];
  const calls = (message.tool_calls ?? []).map((call) => ({ name: call.function.name, arguments: call.function.arguments }));
  const told = { calls, text: message.content ?? "", reasons: [finish_reason], tokens: whole.usage.total_tokens };
  answers.push({ whole: told, streamed });
}
let refused = null;
try {
  await client.chat.completions.create({ model, messages: [{ role: "user", content: "Hi" }], temperature: -1 });
} catch (error) {
  refused = error.param;
}
const models = [];
for await (const entry of client.models.list()) models.push(entry.id);
console.log(JSON.stringify({ answers, models, refused }));
