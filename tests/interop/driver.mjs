// The official TypeScript SDK's client, driven over this process's input and output: one JSON object on each line.
//
// In:  {id, op, ...arguments} asks for an operation, {abort: id} gives one up, {answer: n, result | refusal} answers a
//      question. Out: {id, result | error} ends an operation; {progress}, {notification} and {ask} tell what comes in.

import { createRequire, enableCompileCache } from 'node:module';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

// Each test starts this program; its start is most of its time.
enableCompileCache();

const load = createRequire(join(process.env.MCP_SANSIO_NPM, 'driver.js'));
const { Client, ProtocolError, SSEClientTransport, StreamableHTTPClientTransport } = load('@modelcontextprotocol/client');
const { StdioClientTransport } = load('@modelcontextprotocol/client/stdio');

const QUESTIONS = ['elicitation/create', 'sampling/createMessage', 'roots/list'];
const CAPABILITIES = { elicitation: { form: {}, url: {} }, sampling: {}, roots: { listChanged: true } };
const VERBS = {
    tools: 'listTools',
    resources: 'listResources',
    resourceTemplates: 'listResourceTemplates',
    prompts: 'listPrompts'
};

const aborts = new Map();
const questions = [];
let client;
let subscription;

function say(message) {
    process.stdout.write(JSON.stringify(message) + '\n');
}

function transport({ kind, url, command }) {
    if (kind === 'http') return new StreamableHTTPClientTransport(new URL(url));
    if (kind === 'sse') return new SSEClientTransport(new URL(url));
    return new StdioClientTransport({ command: command[0], args: command.slice(1) });
}

function put(request) {
    return new Promise((resolve, reject) => {
        questions.push({ resolve, reject });
        say({ ask: questions.length - 1, method: request.method, params: request.params ?? {} });
    });
}

// Every notification, in the order of the wire: the SDK hands each kind to a handler of its own, or to the fallback.
const HEARD = [
    'notifications/message',
    'notifications/tools/list_changed',
    'notifications/prompts/list_changed',
    'notifications/resources/list_changed',
    'notifications/resources/updated'
];

const operations = {
    async connect({ mode, asks, ...where }) {
        const capabilities = asks ? CAPABILITIES : {};
        client = new Client({ name: 'tester', version: '3' }, { capabilities, versionNegotiation: { mode } });
        for (const method of asks ? QUESTIONS : []) client.setRequestHandler(method, put);
        const hear = async notification => say({ notification });
        for (const method of HEARD) client.setNotificationHandler(method, hear);
        client.fallbackNotificationHandler = hear;
        await client.connect(transport(where));
        return {
            revision: client.getNegotiatedProtocolVersion(),
            server: {
                serverInfo: client.getServerVersion(),
                capabilities: client.getServerCapabilities(),
                instructions: client.getInstructions()
            }
        };
    },
    items: async ({ kind }) => (await client[VERBS[kind]]())[kind],
    page: ({ method, params }) => client.request({ method, params }),
    call: ({ params }, options) => client.callTool(params, options),
    read: ({ params }) => client.readResource(params),
    prompt: ({ params }) => client.getPrompt(params),
    complete: ({ params }) => client.complete(params),
    ping: () => client.ping(),
    setLogLevel: ({ level }) => client.setLoggingLevel(level),
    subscribe: ({ uri }) => client.subscribeResource({ uri }),
    unsubscribe: ({ uri }) => client.unsubscribeResource({ uri }),
    rootsChanged: () => client.sendRootsListChanged(),
    async listen({ filter }) {
        subscription = await client.listen(filter);
        return subscription.honoredFilter;
    },
    ended: () => subscription.closed,
    unlisten: () => subscription.close(),
    async close() {
        await client.close();
        setImmediate(() => process.exit(0));
    }
};

async function run({ id, op, reports, ...given }) {
    const abort = new AbortController();
    aborts.set(id, abort);
    const options = { signal: abort.signal };
    if (reports) options.onprogress = progress => say({ id, progress });
    try {
        say({ id, result: (await operations[op](given, options)) ?? null });
    } catch (error) {
        say({ id, error: { code: error.code ?? null, message: error.message, data: error.data, stack: error.stack } });
    } finally {
        aborts.delete(id);
    }
}

for await (const line of createInterface({ input: process.stdin })) {
    const message = JSON.parse(line);
    if ('abort' in message) aborts.get(message.abort)?.abort('given up');
    else if ('refusal' in message) questions[message.answer].reject(new ProtocolError(-32603, message.refusal));
    else if ('answer' in message) questions[message.answer].resolve(message.result);
    else run(message);
}
process.exit(0);
