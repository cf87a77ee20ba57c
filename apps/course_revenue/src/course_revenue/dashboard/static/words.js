// What the states are called, and which kind each is: good, note, warn, bad or wait. Never told by colour alone.

import { clock, grouped, span } from "/static/money.js";

const BEHIND_MS = 10_000;

/** Sets a state's words and kind; the kind's glyph and colour are the style sheet's. */
export function say(element, kind, words) {
  if (element.dataset.kind !== kind) element.dataset.kind = kind;
  const text = element.querySelector(".words");
  if (text.textContent !== words) text.textContent = words;
}

export function source(status) {
  const { state, since_ms: since } = status.source;
  return {
    live: ["good", "Live"],
    reading: ["wait", "Reading the topic"],
    opening: ["wait", "Opening the topic"],
    no_topic: ["bad", "No such topic"],
    no_brokers: ["bad", `Brokers down since ${clock(since)}`],
    no_registry: ["bad", "Schema registry down"],
    refused: ["bad", "Not allowed to read"],
  }[state] ?? ["warn", state];
}

export function fresh(freshness) {
  return {
    fresh: ["good", "Within the minute"],
    caught_up: ["good", "All that has landed is in"],
    late: ["bad", "Over the budget"],
    unknown: ["warn", "Older than the budget, job unknown"],
    empty: ["wait", "No lines yet"],
  }[freshness.verdict] ?? ["warn", freshness.verdict];
}

export function job(status) {
  const { job } = status;
  if (!job.asked) return ["note", "No address set"];
  if (!job.answers) return job.endpoints.some((at) => at.since_ms !== null) ? ["bad", "Down"] : ["wait", "Asking"];
  const states = job.instances.map((one) => (one.answers ? one.state : "silent"));
  const silent = job.endpoints.filter((at) => at.failure).length + states.filter((state) => state === "silent").length;
  if (silent) return ["warn", `${silent} not answering`];
  if (job.held_up.length) return ["bad", "A thread is held up"];
  if (job.unheard) return ["bad", "Cut off from the brokers"];
  if (job.unseen.length && job.tasks.length) return ["warn", `${job.unseen.length} ${job.unseen.length === 1 ? "task" : "tasks"} not seen`];
  const other = states.find((state) => state !== "RUNNING");
  if (other) return [other === "ERROR" || other === "PENDING_ERROR" ? "bad" : "warn", title(other)];
  if (job.tasks.some((task) => task.type === "active" && task.state !== "RUNNING")) return ["warn", "Tasks are not all running"];
  if (!job.tasks.some((task) => task.type === "active")) return ["warn", "No task yet"];
  return ["good", "Running"];
}

/** Everything that is to be said across the page: [kind, sentence]. */
export function banners(feed, lastHeardAt) {
  if (!feed.connected) {
    const words = feed.status
      ? `Connection to the dashboard lost. The numbers are those of ${clock(lastHeardAt)}. Trying again.`
      : "Waiting for the dashboard's server.";
    return [[feed.status ? "bad" : "wait", words]];
  }
  const said = [];
  const { source, job, shown, freshness } = feed.status;
  const at = `as of ${clock(source.since_ms)}`;
  if (source.state === "no_brokers") said.push(["bad", `The Kafka brokers do not answer. The totals are ${at}, and go on by themselves.`]);
  if (source.state === "no_topic") said.push(["bad", `The topic ${shown.topic} does not exist. What is shown is ${at}.`]);
  if (source.state === "no_registry") said.push(["bad", `The schema registry does not answer. The totals are ${at}; reading waits for it.`]);
  if (source.state === "refused") said.push(["bad", `The topic cannot be read: ${source.why}`]);
  if (source.state === "reading") said.push(["wait", "Reading the topic from its start: the totals are of a part."]);
  if (job.asked && !job.answers && job.endpoints.some((one) => one.since_ms !== null)) {
    const since = Math.max(...job.endpoints.map((one) => one.since_ms ?? 0));
    said.push(["bad", `The job does not answer since ${clock(since)}: totals do not move until it runs. ${job.endpoints.map((one) => one.address).join(", ")}`]);
  }
  if (source.behind_ms > BEHIND_MS) said.push(["bad", `This page lags behind its topic: for ${span(source.behind_ms)} totals have lain there that it has not read.`]);
  for (const thread of job.held_up) said.push(["bad", `The job's thread ${thread} has not come round for more than 10 s: what its tasks say is old.`]);
  if (job.unheard) said.push(["bad", `The job does not know, for ${span(job.unheard.ms)}, what the brokers hold in ${job.unheard.topics.join(", ")}: it does not reach them, or does not read. Its own lag says nothing now.`]);
  if (job.hidden.length) said.push(["warn", `The brokers do not tell this dashboard where ${job.hidden.join(", ")} end: whether the job is cut off from them cannot be seen. Describe on ${job.hidden.length === 1 ? "it" : "them"} is missing (course-revenue acls --for dashboard).`]);
  if (freshness.ahead) {
    const one = freshness.ahead === 1;
    said.push(["warn", `${grouped(freshness.ahead)} ${one ? "course has an event time" : "courses have event times"} in the future, from a line with a wrong time. The freshness is that of the others.`]);
  }
  if (freshness.verdict === "late") said.push(["bad", `Stale: a line has been waiting for ${span(freshness.waited_ms)}; the budget is 60 s.`]);
  for (const task of job.tasks) if (task.waits_for) said.push(["warn", `Task ${task.id} waits: ${task.waits_for}`]);
  if (source.undecoded) {
    said.push(["warn", `${grouped(source.undecoded)} ${source.undecoded === 1 ? "record of the topic does" : "records of the topic do"} not decode and ${source.undecoded === 1 ? "is" : "are"} not in the totals. The last: ${source.last_undecoded}`]);
  }
  if (source.fewer) {
    const one = source.fewer === 1;
    said.push(["warn", `${grouped(source.fewer)} ${one ? "course counts" : "courses count"} fewer lines than before: a rebuild counts ${one ? "it" : "them"} anew and ${one ? "its total is" : "these totals are"} of a part, or ${one ? "a wrong total was" : "wrong totals were"} put right. Said until as many are counted again, or this dashboard restarts.`]);
  }
  if (source.lost) said.push(["warn", `${grouped(source.lost)} ${source.lost === 1 ? "total is" : "totals are"} not in the topic any more (deleted from its start). They are shown from memory until this dashboard restarts.`]);
  return said;
}

export function title(state) {
  return state.charAt(0) + state.slice(1).toLowerCase().replaceAll("_", " ");
}
