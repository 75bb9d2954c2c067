// Runs one job with the official SDK and prints what the SDK gave us, as JSON on the last line.
// Usage: node drive.mjs SDK_FOLDER '{"codex": {...}, "thread": {...}, "resume": null, "turns": [{"input": ..., "options": {...}, "streamed": true}]}'
import { pathToFileURL } from "node:url";

const [sdkFolder, job] = process.argv.slice(2);
const { Codex } = await import(pathToFileURL(`${sdkFolder}/node_modules/@openai/codex-sdk/dist/index.js`).href);
const { codex: codexOptions, thread: threadOptions, resume, turns } = JSON.parse(job);

const codex = new Codex(codexOptions);
const thread = resume ? codex.resumeThread(resume, threadOptions) : codex.startThread(threadOptions);
const results = [];
for (const { input, options, streamed, stopAfter } of turns) {
  const abort = new AbortController();
  const turnOptions = { ...options, signal: abort.signal };
  try {
    if (streamed) {
      const events = [];
      for await (const event of (await thread.runStreamed(input, turnOptions)).events) {
        events.push(event);
        if (event.type === stopAfter) abort.abort();
      }
      results.push({ events });
    } else {
      results.push({ turn: await thread.run(input, turnOptions) });
    }
  } catch (error) {
    results.push({ error: { name: error.name, message: error.message } });
  }
}
process.stdout.write(JSON.stringify({ threadId: thread.id, results }) + "\n");
