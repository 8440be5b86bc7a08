// A server on the official TypeScript SDK 2.x, which speaks both eras: `ts_2.mjs stdio` or `ts_2.mjs http PORT`.

import http from "node:http";
import { toNodeHandler } from "@modelcontextprotocol/node";
import {
  completable,
  createMcpHandler,
  inputRequired,
  McpServer,
  ResourceTemplate,
} from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { z } from "zod";
import { FORM, Tools } from "./tools.mjs";

const [mode, port] = process.argv.slice(2);
const tools = new Tools(z.object);
const servers = new Set();
let handler;

function make() {
  const server = new McpServer({ name: "ts-2", version: "1.0.0" }, { capabilities: { tools: { listChanged: true } } });
  const of = (extra) => ({
    signal: extra.mcpReq.signal,
    token: extra.mcpReq._meta?.progressToken,
    notify: (note) => extra.mcpReq.notify(note),
    ask: (message, tell) => {
      const answer = extra.mcpReq.inputResponses?.who;
      const who = inputRequired.elicit({ message, requestedSchema: FORM });
      return answer ? tell(answer) : inputRequired({ inputRequests: { who } });
    },
  });
  tools.addTo(server, z, of, { completable, ResourceTemplate });
  servers.add(server);
  return server;
}

tools.onChanged = () => {
  for (const server of servers) tools.settle(server); // over stdio this tells the client by itself
  handler?.notify.toolsChanged();
};

if (mode === "stdio") {
  serveStdio(make);
} else {
  handler = createMcpHandler(make);
  http.createServer(toNodeHandler(handler)).listen(Number(port), "127.0.0.1");
}
