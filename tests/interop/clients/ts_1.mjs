// The official TypeScript client of the handshake era, `@modelcontextprotocol/sdk` 1.x.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  ElicitRequestSchema,
  LoggingMessageNotificationSchema,
  ToolListChangedNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { main } from "./tour.mjs";

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
  const asks = config.asks ?? true;
  const capabilities = asks ? { elicitation: {} } : {};
  const sdk = new Client({ name: config.name ?? "tour", version: "1.0.0" }, { capabilities });
  if (asks) sdk.setRequestHandler(ElicitRequestSchema, ({ params }) => diary.answer(params));
  sdk.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => {
    diary.logs.push({ level: params.level, data: params.data });
  });
  sdk.setNotificationHandler(ToolListChangedNotificationSchema, () => {
    diary.changes += 1;
  });
  const transport = transportFor(kind, config);
  let revision = "unknown";
  const setProtocolVersion = transport.setProtocolVersion?.bind(transport);
  transport.setProtocolVersion = (version) => {
    revision = version;
    setProtocolVersion?.(version);
  };
  await sdk.connect(transport);
  return {
    sdk,
    revision,
    tools: async () => (await sdk.listTools()).tools.map((tool) => tool.name),
    call: (name, args, options) => sdk.callTool({ name, arguments: args }, undefined, options),
    watching: async () => async () => {},
    loosenLogLevel: () => sdk.setLoggingLevel("debug"),
  };
});
