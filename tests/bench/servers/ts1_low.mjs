// The peer @modelcontextprotocol/sdk 1.x, low-level `Server`, answering in JSON; it checks no arguments of its own.
// argv: stdio | http PORT.   BENCH_TS1 names the directory that holds node_modules.
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const require = createRequire(process.env.BENCH_TS1 + '/package.json');
const load = (name) => {
  const path = require.resolve('@modelcontextprotocol/sdk/' + name).replace('/dist/cjs/', '/dist/esm/');
  return import(pathToFileURL(path).href);
};
const { Server } = await load('server/index.js');
const { ListToolsRequestSchema, CallToolRequestSchema } = await load('types.js');

const catalog = JSON.parse(readFileSync(process.env.BENCH_CATALOG));
const broadcasts = Boolean(process.env.BENCH_BROADCAST);
const echo = { content: [{ type: 'text', text: catalog.echo_text }] };
const known = []; // the servers to tell; kept only when a broadcast is going to be measured

async function call(name, args) {
  if (name === 'forward') {
    const headers = { 'content-type': 'application/json' };
    const reply = await fetch(process.env.BENCH_BACKEND, { method: 'POST', headers, body: JSON.stringify(args) });
    return { content: [{ type: 'text', text: await reply.text() }] };
  }
  if (broadcasts && name === 'broadcast') for (const server of known) await server.sendToolListChanged();
  return echo;
}

function make() {
  const server = new Server({ name: 'bench', version: '1' }, { capabilities: { tools: { listChanged: true } } });
  server.setRequestHandler(ListToolsRequestSchema, async () => ({ tools: catalog.tools }));
  server.setRequestHandler(CallToolRequestSchema, async (request) => call(request.params.name, request.params.arguments));
  if (broadcasts) known.push(server);
  return server;
}

const [mode, port] = process.argv.slice(2);
if (mode === 'stdio') {
  const { StdioServerTransport } = await load('server/stdio.js');
  await make().connect(new StdioServerTransport());
} else {
  const { StreamableHTTPServerTransport } = await load('server/streamableHttp.js');
  const sessions = new Map();
  http.createServer(async (request, response) => {
    try {
      const id = request.headers['mcp-session-id'];
      let transport = id && sessions.get(id);
      if (!transport) {
        if (id) { response.writeHead(404).end(); return; }
        transport = new StreamableHTTPServerTransport({
          sessionIdGenerator: () => randomUUID(),
          enableJsonResponse: true,
          onsessioninitialized: (fresh) => sessions.set(fresh, transport),
        });
        await make().connect(transport);
      }
      await transport.handleRequest(request, response);
    } catch (error) {
      console.error(error);
      if (!response.headersSent) response.writeHead(500).end();
    }
  }).listen(Number(port), '127.0.0.1', 1024);
}
