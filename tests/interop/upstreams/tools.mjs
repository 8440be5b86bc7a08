// What both generations of the TypeScript SDK serve: echo, progress, waiting, an error, a form, a list that changes, a
// prompt with a completion, a resource and a template.

export const FORM = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };

const tell = ({ action, content }) => say(action === "accept" ? `accept: ${content.name}` : action);

const say = (text) => ({ content: [{ type: "text", text }] });

export class Tools {
  onChanged = () => {};
  #shape;
  #waiting = 0;
  #hasExtra = false;
  #extras = new Map();

  // `shape` makes the SDK's input schema from an object of zod types.
  constructor(shape) {
    this.#shape = shape;
  }

  // `of` gives the signal, the progress token, and the ways to notify and to ask of one call.
  addTo(server, z, of, { completable, ResourceTemplate }) {
    const add = (name, shape, run) =>
      server.registerTool(name, { description: `Do ${name}.`, inputSchema: this.#shape(shape) }, run);
    add("echo", { text: z.string() }, async ({ text }) => say(text));
    add("count", { to: z.number().int() }, async ({ to }, extra) => {
      const { token, notify } = of(extra);
      for (let number = 1; number <= to && token !== undefined; number += 1) {
        const params = { progressToken: token, progress: number, total: to };
        await notify({ method: "notifications/progress", params });
        await new Promise((resolve) => setTimeout(resolve, 20)); // some clients drop what comes with the answer
      }
      return say(`counted to ${to}`);
    });
    add("wait", {}, async (_, extra) => {
      const { signal } = of(extra);
      this.#waiting += 1;
      try {
        await new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(new Error("withdrawn"))));
      } finally {
        this.#waiting -= 1;
      }
    });
    add("running", {}, async () => say(String(this.#waiting)));
    add("ask", {}, async (_, extra) => of(extra).ask("Who are you?", tell));
    add("fail", {}, async () => {
      throw new Error("out of paper");
    });
    add("toggle_extra", {}, async () => {
      this.#hasExtra = !this.#hasExtra;
      this.onChanged();
      return say("the list has changed");
    });
    const names = completable(z.string(), (typed) => [`${typed}nna`, `${typed}nton`]);
    const about = { description: "Review a topic.", argsSchema: this.#shape({ topic: names }) };
    server.registerPrompt("review", about, ({ topic }) => ({
      messages: [{ role: "user", content: { type: "text", text: `Review ${topic}.` } }],
    }));
    const read = (text) => async (uri, given) => ({ contents: [{ uri: uri.href, text: text(given) }] });
    server.registerResource("today", "note://today", {}, read(() => "a note"));
    const template = new ResourceTemplate("note://by/{name}", { list: undefined });
    server.registerResource("by", template, {}, read(({ name }) => `a note by ${name}`));
    this.settle(server);
  }

  // Give the server the tool that comes and goes, or take it away; one whose connection is gone tells nobody.
  settle(server) {
    const held = this.#extras.get(server);
    if (this.#hasExtra && !held) {
      const extra = server.registerTool("extra", { description: "A tool that came later." }, async () => say("extra"));
      this.#extras.set(server, extra);
    } else if (!this.#hasExtra && held) {
      held.remove();
      this.#extras.delete(server);
    }
  }
}
