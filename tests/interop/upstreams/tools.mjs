// What both generations of the TypeScript SDK serve: echo, progress, waiting, an error, and a list that grows.

const say = (text) => ({ content: [{ type: "text", text }] });

export class Tools {
  onGrown = () => {};
  #shape;
  #waiting = 0;
  #grown = false;

  // `shape` makes the SDK's input schema from an object of zod types.
  constructor(shape) {
    this.#shape = shape;
  }

  // `of` gives the signal, the progress token and the way to notify of one call.
  addTo(server, z, of) {
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
    add("fail", {}, async () => {
      throw new Error("out of paper");
    });
    add("grow", {}, async () => {
      this.#grown = true;
      this.onGrown();
      return say("grown");
    });
    if (this.#grown) this.addExtra(server);
  }

  addExtra(server) {
    try {
      server.registerTool("extra", { description: "A tool that came later." }, async () => say("extra"));
    } catch {
      // it is there already, or its connection is gone
    }
  }
}
