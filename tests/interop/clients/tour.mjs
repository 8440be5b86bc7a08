// What every TypeScript client can be made to do: the tour of the showcase, or one order after the other from stdin.
// Either way what it saw is printed as JSON: the tour as one object, orders as one line each.

import { createInterface } from "node:readline";

const LIMIT = 15_000;
const STEPS = 4;

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function until(condition, what) {
  const deadline = Date.now() + LIMIT;
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`waited ${LIMIT} ms for ${what}`);
    await pause(20);
  }
}

// What the server told the client without being asked, and how the client answers when it is asked.
export class Diary {
  logs = [];
  changes = 0;
  asked = [];
  answers = [];

  answer(params) {
    this.asked.push({ message: params.message, properties: params.requestedSchema?.properties ?? {} });
    return this.answers.shift();
  }
}

export const texts = (result) => result.content.filter((block) => block.type === "text").map((block) => block.text);

// `client` offers: revision, tools(), call(name, arguments, options), watching(), loosenLogLevel(), and the library's
// own client as `sdk` for prompts and resources.
export async function tour(client, diary) {
  const seen = { revision: client.revision, tools: await client.tools() };

  const echo = await client.call("echo", { text: "grüße, 世界 🌍" });
  seen.echo = { texts: texts(echo), structured: echo.structuredContent, failed: Boolean(echo.isError) };
  seen.refused = Boolean((await client.call("echo", { text: 7 })).isError);

  const steps = [];
  const counted = await client.call(
    "count",
    { to: STEPS, delay_ms: 60 },
    { onprogress: ({ progress, total }) => steps.push([progress, total]) },
  );
  await until(() => steps.length >= STEPS, "progress");
  seen.count = { texts: texts(counted), steps };

  await client.loosenLogLevel();
  await client.call("log", { message: "first light", level: "debug" });
  await client.call("log", { message: "heavy weather", level: "error" });
  await until(() => diary.logs.length >= 2, "log messages");
  seen.logs = diary.logs;

  diary.answers = [{ action: "accept", content: { name: "Ada" } }, { action: "decline" }];
  const accepted = await client.call("ask_name", {});
  const declined = await client.call("ask_name", {});
  seen.ask = { accepted: texts(accepted), declined: texts(declined), asked: diary.asked };

  seen.cancel = await cancellation(client);
  seen.change = await listChange(client, diary);

  const { sdk } = client;
  seen.prompts = (await sdk.listPrompts()).prompts.map((prompt) => prompt.name);
  const greeting = await sdk.getPrompt({ name: "greet", arguments: { name: "Ada" } });
  seen.greeting = greeting.messages.map((message) => message.content.text).join(" ");
  seen.resources = (await sdk.listResources()).resources.map((resource) => resource.uri);
  seen.templates = (await sdk.listResourceTemplates()).resourceTemplates.map((template) => template.uriTemplate);
  const read = async (uri) => (await sdk.readResource({ uri })).contents.map((part) => part.text).join("");
  seen.readme = await read("showcase://readme");
  seen.note = await read("showcase://note/42");
  return seen;
}

const waiting = async (client) => (await client.call("running", {})).structuredContent.waiting;

async function cancellation(client) {
  const before = await waiting(client);
  const controller = new AbortController();
  const ended = client.call("wait", { seconds: 60 }, { signal: controller.signal, timeout: 60_000 }).then(
    (result) => `answered: ${JSON.stringify(result)}`,
    () => (controller.signal.aborted ? "cancelled" : "failed"),
  );
  await until(async () => (await waiting(client)) === before + 1, "the call to run");
  controller.abort("the tour goes on");
  const how = await ended;
  await until(async () => (await waiting(client)) === before, "the cancelled call to stop running");
  return { ended: how, before, after: await waiting(client) };
}

async function listChange(client, diary) {
  const extra = [];
  const stop = await client.watching();
  for (let round = 0; round < 2; round += 1) {
    const changes = diary.changes;
    await client.call("toggle_extra", {});
    await until(() => diary.changes > changes, "the tool list to change");
    extra.push((await client.tools()).includes("extra"));
  }
  await stop();
  return { extra };
}

async function countSteps(client, name, args) {
  const steps = [];
  const answer = await client.call(name, args, { onprogress: ({ progress }) => steps.push(progress) });
  return { steps, texts: texts(answer) };
}

// Cancel a call that is under way: the tool `running` counts those, or one quick call has been answered since.
async function withdraw(client, name, args, running, quick) {
  const count = async () => (running ? Number(texts(await client.call(running, {}))[0]) : 0);
  const controller = new AbortController();
  const ended = client.call(name, args, { signal: controller.signal, timeout: 60_000 }).then(
    (result) => `answered: ${JSON.stringify(result)}`,
    () => (controller.signal.aborted ? "cancelled" : "failed"),
  );
  await (running ? until(async () => (await count()) === 1, "the call to run") : client.call(...quick));
  controller.abort("the tour goes on");
  const how = await ended;
  await until(async () => (await count()) === 0, "the cancelled call to stop running");
  return how;
}

const print = (seen) => process.stdout.write(`${JSON.stringify(seen ?? null)}\n`);

// Orders from stdin, one JSON array a line, until there are no more; each is answered with one line.
async function obey(client, diary) {
  print({ revision: client.revision });
  const orders = {
    call: (name, args) => client.call(name, args),
    progress: (name, args) => countSteps(client, name, args),
    withdraw: (...what) => withdraw(client, ...what),
    tools: () => client.tools(),
    schemas: async () =>
      Object.fromEntries((await client.sdk.listTools()).tools.map((tool) => [tool.name, tool.inputSchema])),
    answer: (answers) => void diary.answers.push(...answers),
    asked: () => diary.asked,
    watch: async () => void (await client.watching()),
    changes: async (count) => {
      await until(() => diary.changes >= count, "the tool list to change");
      return diary.changes;
    },
    prompt: async (name, args) => {
      const { messages } = await client.sdk.getPrompt({ name, arguments: args });
      return messages.map((message) => message.content.text).join(" ");
    },
    templates: async () =>
      (await client.sdk.listResourceTemplates()).resourceTemplates.map((template) => template.uriTemplate),
    prompts: async () => (await client.sdk.listPrompts()).prompts.map((prompt) => prompt.name),
    resources: async () => (await client.sdk.listResources()).resources.map((resource) => resource.uri),
    read: async (uri) => (await client.sdk.readResource({ uri })).contents.map((part) => part.text).join(""),
  };
  for await (const line of createInterface({ input: process.stdin })) {
    const [order, ...given] = JSON.parse(line);
    try {
      print(await orders[order](...given));
    } catch (error) {
      print({ refused: `${error.name}: ${error.message}` });
    }
  }
}

// `driver <stdio|http|sse> <json-config>`: take the tour or obey, print what was seen.
export async function main(connect) {
  const [, , transport, text] = process.argv;
  const config = JSON.parse(text);
  const diary = new Diary();
  const client = await connect(transport, config, diary);
  if (config.obey) await obey(client, diary);
  else print(await tour(client, diary));
  await client.sdk.close();
}
