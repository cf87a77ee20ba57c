// The page: one stream in, one drawing per animation frame out.

import { Feed } from "/static/feed.js";
import { change, clock, grouped, moment, money, rate, span } from "/static/money.js";
import { Order } from "/static/order.js";
import { plot } from "/static/plot.js";
import { Table } from "/static/table.js";
import { banners, fresh, job, say, source, title } from "/static/words.js";

const $ = (id) => document.getElementById(id);
const METER_S = 90;
const TEN_MINUTES = 600_000;

let due = { rows: false, points: false, status: false };
let asked = false;
let lastHeardAt = Date.now();
const opened = { course: null, trail: [] };
const order = new Order();
const currency = () => feed.status?.shown.currency ?? "eur";
const table = new Table(order, currency, open);
const known = new Map(); // what each row's cents were, for the direction it moved in
const feed = new Feed(told, () => draw({ status: true }));

function told({ whole, changed, removed, points, status }) {
  lastHeardAt = Date.now();
  if (whole) {
    order.reset(feed.rows);
    known.clear();
    for (const row of feed.rows.values()) known.set(row.course, row.net);
    if (opened.course !== null) open(opened.course);
  } else {
    order.replace(changed, removed);
    table.flash(changed, (course) => known.get(course), performance.now());
    for (const row of changed) known.set(row.course, row.net);
    for (const course of removed) known.delete(course);
    follow(changed);
  }
  draw({ rows: whole || changed.length > 0 || removed.length > 0, points: whole || points, status: whole || status });
}

/** Asks for a drawing: the next animation frame draws what is due, however often it was asked for. */
function draw(what) {
  for (const name of Object.keys(what)) due[name] ||= what[name];
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    const now = due;
    due = { rows: false, points: false, status: false };
    if (now.rows || now.status) {
      sums();
      table.draw();
      shown();
    }
    if (now.points) plots();
    if (now.status) status();
    if (opened.course !== null && (now.rows || now.points)) detail();
  });
}

function text(id, words) {
  const element = $(id);
  if (element.textContent !== words) element.textContent = words;
}

function sums() {
  if (!feed.sums) return;
  text("net", money(feed.sums.net, currency()));
  $("net").classList.toggle("negative", feed.sums.net < 0n);
  text("courses", grouped(feed.sums.courses));
  const { flagged } = feed.sums;
  say($("flagged"), flagged ? "warn" : "good", flagged ? `${grouped(flagged)} flagged` : "None flagged");
  document.title = `${money(feed.sums.net, currency())} · Course revenue`;
}

function shown() {
  const { rows } = order;
  const filtered = order.needle || order.onlyFlagged;
  text("shown", filtered ? `${grouped(rows.length)} of ${grouped(feed.rows.size)}` : `${grouped(rows.length)}`);
  const empty = $("empty");
  empty.hidden = rows.length > 0;
  if (!rows.length) text("empty", filtered ? "No course matches." : feed.connected ? "No totals in the topic yet." : "Waiting for totals.");
}

function plots() {
  const { points } = feed;
  if (!points.length) {
    for (const id of ["net-plot", "flagged-plot", "rate-plot"]) plot($(id), [], []);
    return;
  }
  const times = points.map((point) => point.at);
  const last = points[points.length - 1];
  plot($("net-plot"), times, points.map((point) => point.net));
  plot($("flagged-plot"), times, points.map((point) => point.flagged), { floor: 0 });
  const rates = points.map((point, at) => {
    const before = points[Math.max(0, at - 5)];
    return point.at > before.at ? Math.max(0, (Number(point.lines - before.lines) * 1000) / (point.at - before.at)) : 0;
  });
  plot($("rate-plot"), times, rates, { floor: 0 });
  text("net-from", `${span(last.at - points[0].at)} ago`);
  text("net-note", `${change(last.net - points[0].net, currency())} in the last ${span(Math.min(TEN_MINUTES, last.at - points[0].at))}`);
}

function status() {
  say($("connection"), feed.connected ? "good" : feed.status ? "bad" : "wait", feed.connected ? "Connected" : feed.status ? "Connection lost" : "Connecting");
  document.body.classList.toggle("stale", !feed.connected || (!!feed.status && feed.status.source.state !== "live"));
  lines("banners", feed.status || !feed.connected ? banners(feed, lastHeardAt) : [], (element, [kind, words]) => {
    if (!element.firstChild) element.innerHTML = '<span class="glyph" aria-hidden="true"></span><span class="words"></span>';
    element.className = "banner";
    say(element, kind, words);
  });
  if (!feed.status) return;
  const told = feed.status;
  freshness(told.freshness);
  text("rate", rate(told.throughput.lines_per_second));
  const jobRate = told.throughput.job_records_per_second;
  text("rate-note", `${rate(told.throughput.records_per_second)} totals/s written${jobRate === null ? "" : `, job reads ${rate(jobRate)} records/s`}`);
  jobPanel(told);
  sourcePanel(told);
  text("stamp", `${told.shown.topic} · as of ${clock(told.now)}`);
}

function freshness(kept) {
  text("age", kept.age_ms === null ? "–" : span(kept.age_ms));
  say($("verdict"), ...fresh(kept));
  const newest = kept.newest_ms;
  text("newest", newest === null ? "" : `newest event ${moment(newest)} UTC`);
  const waited = kept.waited_ms;
  const seconds = waited === null ? 0 : waited / 1000;
  $("meter-fill").style.width = `${Math.min(100, (seconds / METER_S) * 100)}%`;
  $("meter-fill").hidden = waited === null;
  $("meter").classList.toggle("over", seconds > 60);
  $("meter").setAttribute("aria-valuenow", Math.min(METER_S, Math.round(seconds)));
  text("waited", waited === null ? "commit lag unknown" : `commit lag ${span(waited)}`);
}

function jobPanel(told) {
  say($("job-state"), ...job(told));
  const instances = [
    ...told.job.endpoints.filter((at) => at.failure).map((at) => [at.address, "bad", at.failure]),
    ...told.job.instances.map((one) =>
      one.answers
        ? [shortened(one.name), one.state === "RUNNING" ? "good" : one.state.endsWith("ERROR") ? "bad" : "warn", `${title(one.state)}, ${one.active} active${one.standby ? `, ${one.standby} standby` : ""}`]
        : [shortened(one.name), "bad", one.reason ?? "does not answer"],
    ),
  ];
  lines("instances", instances, (element, [name, kind, words]) => {
    if (!element.firstChild) element.innerHTML = '<b></b><span class="verdict"><span class="glyph" aria-hidden="true"></span><span class="words"></span></span>';
    element.className = "instance";
    if (element.firstChild.textContent !== name) element.firstChild.textContent = element.firstChild.title = name;
    say(element.lastChild, kind, words);
  });
  const rows = told.job.tasks;
  const greatest = Math.max(1, ...rows.map((task) => task.rate ?? 0));
  cells("tasks", rows, (task) => [
    { words: task.id, mark: task.type === "standby" ? "standby" : task.hot.length ? "hot" : "", title: task.topics.join(", ") },
    { words: task.restore_remaining ? `${title(task.state)}, ${grouped(task.restore_remaining)} left` : title(task.state), kind: task.state === "RUNNING" ? "" : "warn" },
    { words: task.lag === null ? "–" : grouped(task.lag), kind: task.hot.includes("lag") ? "warn" : "" },
    { words: task.rate === null ? "–" : rate(task.rate), kind: task.hot.includes("rate") ? "warn" : "", bar: (task.rate ?? 0) / greatest },
    { words: task.commit_age_ms === null ? "–" : span(task.commit_age_ms) },
  ]);
  $("tasks").hidden = !rows.length;
  const facts = [];
  if (told.job.asked && told.job.answers) {
    facts.push(["Rejected lines", told.job.rejects ? grouped(told.job.rejected) : "off, a broken line stops the job"]);
    for (const [reason, count] of Object.entries(told.job.dropped).sort()) facts.push([reason.replace(/^rejected: /, "· "), grouped(count)]);
  }
  const list = $("drops");
  const words = JSON.stringify(facts);
  if (list.dataset.words !== words) {
    list.dataset.words = words;
    list.replaceChildren(...facts.flatMap(([name, value]) => [element("dt", name), element("dd", value)]));
  }
}

/** A client's id with the beginning of its long random part. */
function shortened(name) {
  return name.replace(/([0-9a-f]{8})(-[0-9a-f]{4}){3}-[0-9a-f]{12}/, "$1…");
}

function sourcePanel(told) {
  say($("source-state"), ...source(told));
  text("source-note", `${told.shown.topic}: ${grouped(told.source.records)} records`);
  lines("offsets", told.source.offsets, (element, [partition, at, end]) => {
    const behind = end === null ? 0n : BigInt(end) - BigInt(at);
    const words = `${partition} → ${grouped(at)}${behind > 0n ? ` ▲ ${grouped(behind)} behind` : ""}`;
    element.setAttribute("role", "listitem");
    element.title = `partition ${partition}: read up to ${grouped(at)}, ${end === null ? "end not known" : `ends at ${grouped(end)}`}`;
    if (element.textContent !== words) element.textContent = words;
  });
}

function open(course) {
  opened.course = course;
  opened.trail = [];
  $("detail").hidden = false;
  fetch(`/trail?course=${encodeURIComponent(course)}`)
    .then((answer) => answer.json())
    .then(({ trail }) => {
      if (opened.course !== course) return;
      opened.trail = [...trail.map(([at, cents]) => [at, BigInt(cents)]), ...opened.trail];
      detail();
    })
    .catch(() => {}); // the stream says that the server is gone
  detail();
}

function close() {
  opened.course = null;
  $("detail").hidden = true;
  table.unselect();
}

/** Adds what the stream brings to the open course's movement. */
function follow(changed) {
  const row = opened.course === null ? undefined : changed.find((one) => one.course === opened.course);
  if (!row) return;
  opened.trail.push([feed.status?.now ?? Date.now(), row.net]);
  if (opened.trail.length > 1000) opened.trail.splice(0, 200);
}

function detail() {
  const row = feed.rows.get(opened.course);
  text("detail-title", opened.course);
  if (!row) {
    text("detail-net", "–");
    text("detail-note", "This course has no total any more.");
    plot($("detail-plot"), [], []);
    return;
  }
  text("detail-net", money(row.net, currency()));
  $("detail-net").classList.toggle("negative", row.net < 0n);
  text("detail-note", `${grouped(row.lines)} lines, newest event ${moment(row.timeText)} UTC${row.flagged ? ". ▲ The line applied last found no catalog row." : ""}`);
  const now = feed.status?.now ?? Date.now();
  const trail = [...opened.trail, [now, row.net]];
  plot($("detail-plot"), trail.map(([at]) => at), trail.map(([, cents]) => cents));
  text("detail-from", opened.trail.length ? `${span(now - trail[0][0])} ago` : "has not moved since this dashboard runs");
}

/** As many children as items, each filled; children are kept. */
function lines(id, items, fill) {
  const holder = $(id);
  while (holder.children.length > items.length) holder.lastChild.remove();
  while (holder.children.length < items.length) holder.append(document.createElement("div"));
  items.forEach((item, at) => fill(holder.children[at], item));
}

/** The rows of a small table, changed in place. */
function cells(id, items, columns) {
  const body = $(id).tBodies[0];
  while (body.rows.length > items.length) body.deleteRow(-1);
  items.forEach((item, at) => {
    const row = body.rows[at] ?? body.insertRow();
    columns(item).forEach(({ words, kind = "", mark = "", title: hint = "", bar = null }, number) => {
      let cell = row.cells[number];
      if (!cell) {
        cell = row.insertCell();
        cell.append(element("span", ""));
        if (number > 0 && !$(id).tHead.rows[0].cells[number].className.includes("num")) cell.className = "";
        else if (number > 0) cell.className = "num";
      }
      const label = cell.firstChild;
      if (label.textContent !== words) label.textContent = words;
      if (cell.dataset.kind !== kind) cell.dataset.kind = kind;
      if ((cell.dataset.mark ?? "") !== mark) cell.dataset.mark = mark;
      if (cell.title !== hint) cell.title = hint;
      if (bar !== null) cell.style.setProperty("--bar", `${Math.round(bar * 100)}%`);
    });
  });
}

function element(name, words) {
  const made = document.createElement(name);
  made.textContent = words;
  return made;
}

function sortBy(key) {
  const descending = order.key === key ? !order.descending : key !== "course";
  order.key = key;
  order.descending = descending;
  for (const button of document.querySelectorAll("[data-sort]")) {
    const mine = button.dataset.sort === key;
    button.parentElement.setAttribute("aria-sort", mine ? (descending ? "descending" : "ascending") : "none");
  }
  again();
}

function again() {
  order.reset();
  $("scroller").scrollTop = 0;
  draw({ rows: true });
}

for (const button of document.querySelectorAll("[data-sort]")) {
  button.tabIndex = 0;
  button.addEventListener("click", () => sortBy(button.dataset.sort));
}
$("search").addEventListener("input", (event) => {
  order.needle = event.target.value.trim().toLowerCase();
  again();
});
$("only-flagged").addEventListener("change", (event) => {
  order.onlyFlagged = event.target.checked;
  again();
});
$("detail-close").addEventListener("click", () => {
  close();
  $("grid").focus();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && event.target.tagName !== "INPUT" && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    $("search").focus();
    $("search").select();
  } else if (event.key === "Escape") {
    const search = $("search");
    if (event.target === search && search.value) {
      search.value = "";
      search.dispatchEvent(new Event("input"));
    } else if (opened.course !== null) {
      close();
      $("grid").focus();
    }
  } else if (event.key === "ArrowDown" && event.target === $("search")) {
    event.preventDefault();
    $("grid").focus();
  }
});
draw({ status: true });
