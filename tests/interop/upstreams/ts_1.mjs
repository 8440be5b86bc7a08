// A server on the official TypeScript SDK 1.x: `ts_1.mjs stdio` or `ts_1.mjs http PORT`, with a session per client.

import { randomUUID } from "node:crypto";
import http from "node:http";
import { completable } from "@modelcontextprotocol/sdk/server/completable.js";
import { McpServer, ResourceTemplate } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { z } from "zod";
import { FORM, Tools } from "./tools.mjs";

const [mode, port] = process.argv.slice(2);
const tools = new Tools((shape) => shape);
const servers = new Set();
tools.onChanged = () => {
  for (const server of servers) tools.settle(server);
};

function make() {
  const server = new McpServer({ name: "ts-1", version: "1.0.0" });
  const of = (extra) => ({
    signal: extra.signal,
    token: extra._meta?.progressToken,
    notify: (note) => extra.sendNotification(note),
    ask: async (message, tell) => tell(await server.server.elicitInput({ message, requestedSchema: FORM })),
  });
  tools.addTo(server, z, of, { completable, ResourceTemplate });
  servers.add(server);
  return server;
}

async function serve(sessions, request, response) {
  const id = request.headers["mcp-session-id"];
  let transport = id && sessions.get(id);
  if (!transport) {
    if (id) return response.writeHead(404).end();
    transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: () => randomUUID(),
      onsessioninitialized: (fresh) => sessions.set(fresh, transport),
    });
    await make().connect(transport);
  }
  await transport.handleRequest(request, response);
}

if (mode === "stdio") {
  await make().connect(new StdioServerTransport());
} else {
  const sessions = new Map();
  http.createServer((request, response) => serve(sessions, request, response)).listen(Number(port), "127.0.0.1");
}
