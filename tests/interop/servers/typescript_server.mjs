// The pantry, served by the TypeScript SDK v2: dual, modern or legacy, over HTTP and stdio.
//
// node typescript_server.mjs http|stdio [--era dual|modern|legacy]. Over HTTP it prints its address and serves until its
// input ends. Handlers are written once: where the era pushes questions, the SDK asks the ones that they return.

import { createRequire } from 'node:module';
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { join } from 'node:path';

const load = createRequire(join(process.env.MCP_SANSIO_NPM, 'server.js'));
const { McpServer, ResourceTemplate, completable, createMcpHandler, inputRequired, inputResponse, isLegacyRequest } =
    load('@modelcontextprotocol/server');
const { serveStdio } = load('@modelcontextprotocol/server/stdio');
const { NodeStreamableHTTPServerTransport, toNodeHandler, toWebRequest } = load('@modelcontextprotocol/node');
const z = load('zod');

const [transport, , era = 'dual'] = process.argv.slice(2);
const NAME_FORM = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] };
const NOTE = 'note://welcome';

const givenUp = new Map();
// Over HTTP, who has to be told of changes on the older revisions, and what tells the streams of the newest. Over stdio
// the SDK sends what a server announces to whom it belongs.
const subscribers = new Set();
let notify;

function event(name) {
    if (!givenUp.has(name)) givenUp.set(name, Promise.withResolvers());
    return givenUp.get(name);
}

const text = said => ({ content: [{ type: 'text', text: said }] });
const ask = (key, message, requestState) =>
    inputRequired({ inputRequests: { [key]: inputRequired.elicit({ message, requestedSchema: NAME_FORM }) }, requestState });

function build() {
    const server = new McpServer(
        { name: 'pantry', version: '1.2' },
        {
            instructions: 'Mind the step.',
            capabilities: { logging: {}, resources: { subscribe: true, listChanged: true }, tools: { listChanged: true } }
        }
    );
    const tool = (name, description, shape, run) =>
        server.registerTool(name, { description, inputSchema: z.object(shape) }, run);

    tool('add', 'Add two numbers.', { a: z.number(), b: z.number() }, ({ a, b }) => text(String(a + b)));
    const mirrored = {
        region: z.string().meta({ 'x-mcp-header': 'Region' }),
        limit: z.number().int().default(1).meta({ 'x-mcp-header': 'Limit' })
    };
    tool('nearest', 'Take arguments that HTTP mirrors in headers.', mirrored, ({ region, limit }) => text(`${limit} in ${region}`));
    tool('fail', 'Fail.', {}, () => {
        throw new Error('The shelf is empty.');
    });
    tool('confirm', 'Ask who wants it.', { what: z.string() }, ({ what }, ctx) => {
        const answer = inputResponse(ctx.mcpReq.inputResponses, 'who');
        if (answer.kind === 'missing') return ask('who', `Who wants ${what}?`);
        return text(answer.action === 'accept' ? `accept: ${answer.content.name}` : answer.action);
    });
    tool('introduce', 'Ask one question after the other.', {}, (_, ctx) => {
        const answers = ctx.mcpReq.inputResponses;
        const first = ctx.mcpReq.requestState() ?? inputResponse(answers, 'first').content?.name;
        if (first === undefined) return ask('first', 'First name?');
        const last = inputResponse(answers, 'last');
        return last.kind === 'missing' ? ask('last', `Last name, ${first}?`, first) : text(`${first} ${last.content.name}`);
    });
    tool('summarise', "Ask the client's model.", { text: z.string() }, ({ text: what }, ctx) => {
        const made = inputResponse(ctx.mcpReq.inputResponses, 'text');
        if (made.kind === 'sampling') return text(`${made.result.model}: ${made.result.content.text}`);
        const messages = [{ role: 'user', content: { type: 'text', text: what } }];
        return inputRequired({ inputRequests: { text: inputRequired.createMessage({ messages, maxTokens: 50 }) } });
    });
    tool('folders', "Ask for the client's folders.", {}, (_, ctx) => {
        const found = inputResponse(ctx.mcpReq.inputResponses, 'roots');
        if (found.kind === 'roots') return text(found.roots.map(({ name, uri }) => `${name ?? 'None'}=${uri}`).join(', '));
        return inputRequired({ inputRequests: { roots: inputRequired.listRoots() } });
    });

    const progress = (ctx, params) =>
        ctx.mcpReq._meta?.progressToken !== undefined &&
        ctx.mcpReq.notify({
            method: 'notifications/progress',
            params: { progressToken: ctx.mcpReq._meta.progressToken, ...params }
        });
    tool('report', 'Report progress.', { steps: z.number() }, async ({ steps }, ctx) => {
        for (let step = 1; step <= steps; step++) await progress(ctx, { progress: step, total: steps, message: `step ${step}` });
        return text('reported');
    });
    tool('log', 'Log in two severities.', {}, async (_, ctx) => {
        await ctx.mcpReq.log('debug', 'in detail');
        await ctx.mcpReq.log('warning', 'in short', 'pantry');
        return text('logged');
    });
    tool('wait', 'Wait until given up.', { name: z.string() }, async ({ name }, ctx) => {
        const { signal } = ctx.mcpReq;
        signal.addEventListener('abort', () => event(name).resolve());
        await progress(ctx, { progress: 1, message: 'waiting' });
        await new Promise(resolve => signal.addEventListener('abort', resolve));
        return text('unreachable');
    });
    tool('was_given_up', 'Return once the wait of that name was given up.', { name: z.string() }, async ({ name }) => {
        await event(name).promise;
        return text('given up');
    });
    tool('touch', 'Change the note.', {}, async () => {
        notify?.resourceUpdated(NOTE);
        for (const subscriber of notify ? subscribers : [server]) await subscriber.server.sendResourceUpdated({ uri: NOTE });
        return text('touched');
    });
    tool('rearrange', 'Change the list of tools.', {}, () => {
        notify?.toolsChanged();
        server.sendToolListChanged();
        return text('rearranged');
    });

    server.registerResource('welcome', NOTE, { description: 'A greeting.', mimeType: 'text/plain' }, uri => ({
        contents: [{ uri: uri.href, mimeType: 'text/plain', text: 'Welcome!' }]
    }));
    const template = new ResourceTemplate('city://{name}/weather', { list: undefined });
    server.registerResource('weather', template, { mimeType: 'text/plain' }, (uri, { name }) => ({
        contents: [{ uri: uri.href, mimeType: 'text/plain', text: `${name}: clear` }]
    }));
    const name = completable(z.string(), value => [`${value}a`, `${value}b`]);
    server.registerPrompt('greet', { description: 'Greet somebody.', argsSchema: z.object({ name }) }, args => ({
        messages: [{ role: 'user', content: { type: 'text', text: `Greet ${args.name}.` } }]
    }));

    server.server.setRequestHandler('resources/subscribe', () => {
        subscribers.add(server);
        return {};
    });
    server.server.setRequestHandler('resources/unsubscribe', () => {
        subscribers.delete(server);
        return {};
    });
    return server;
}

// The older revisions in sessions, as servers of theirs are written.
const sessions = new Map();

async function serveSession(body, request, response) {
    const id = request.headers['mcp-session-id'];
    let session = sessions.get(id);
    if (id !== undefined && session === undefined) {
        response.writeHead(404).end();
        return;
    }
    if (session === undefined) {
        session = new NodeStreamableHTTPServerTransport({
            sessionIdGenerator: randomUUID,
            onsessioninitialized: made => sessions.set(made, session),
            onsessionclosed: made => sessions.delete(made)
        });
        await build().connect(session);
    }
    await session.handleRequest(request, response, body);
}

function serveHttp() {
    const handler = createMcpHandler(build, { legacy: 'reject' });
    notify = handler.notify;
    const serveModern = toNodeHandler(handler);
    const server = createServer(async (request, response) => {
        const body = [];
        for await (const chunk of request) body.push(chunk);
        const parsed = body.length ? JSON.parse(Buffer.concat(body)) : undefined;
        const isLegacy = era === 'legacy' || (era === 'dual' && (await isLegacyRequest(await toWebRequest(request, parsed))));
        await (isLegacy ? serveSession(parsed, request, response) : serveModern(request, response, parsed));
    });
    server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}/mcp`));
    process.stdin.on('end', () => process.exit(0)).resume();
}

function serveOverStdio() {
    if (era === 'legacy') {
        const { StdioServerTransport } = load('@modelcontextprotocol/server/stdio');
        build().connect(new StdioServerTransport());
    } else {
        serveStdio(build, { legacy: era === 'modern' ? 'reject' : 'serve' });
    }
}

(transport === 'stdio' ? serveOverStdio : serveHttp)();
