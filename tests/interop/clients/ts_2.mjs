// The official TypeScript client of both eras, `@modelcontextprotocol/client` 2.x.

import { Client, SSEClientTransport, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { main } from "./tour.mjs";

const MODERN = "2026-07-28";
const LOG_LEVEL = "io.modelcontextprotocol/logLevel";

function transportFor(kind, config) {
  if (kind === "stdio") {
    const [command, ...args] = config.command;
    return new StdioClientTransport({ command, args, env: { ...process.env, ...config.env } });
  }
  const url = new URL(config.url);
  if (kind === "sse") return new SSEClientTransport(url);
  return new StreamableHTTPClientTransport(url, { requestInit: { headers: config.headers ?? {} } });
}

await main(async (kind, config, diary) => {
  const mode = config.mode === MODERN ? { pin: MODERN } : config.mode;
  const asks = config.asks ?? true;
  const capabilities = asks ? { elicitation: {} } : {};
  const sdk = new Client(
    { name: config.name ?? "tour", version: "1.0.0" },
    { capabilities, versionNegotiation: { mode } },
  );
  if (asks) sdk.setRequestHandler("elicitation/create", ({ params }) => diary.answer(params));
  sdk.setNotificationHandler("notifications/message", ({ params }) => {
    diary.logs.push({ level: params.level, data: params.data });
  });
  sdk.setNotificationHandler("notifications/tools/list_changed", () => {
    diary.changes += 1;
  });
  await sdk.connect(transportFor(kind, config));
  const revision = sdk.getNegotiatedProtocolVersion();
  const modern = revision === MODERN;
  const meta = modern ? { _meta: { [LOG_LEVEL]: "debug" } } : {};
  return {
    sdk,
    revision,
    tools: async () => (await sdk.listTools()).tools.map((tool) => tool.name),
    call: (name, args, options) => sdk.callTool({ name, arguments: args, ...meta }, options),
    watching: async () => {
      const subscription = modern ? await sdk.listen({ toolsListChanged: true }) : undefined;
      return async () => subscription?.close();
    },
    loosenLogLevel: async () => {
      if (!modern) await sdk.setLoggingLevel("debug");
    },
  };
});
