// The timeline: host, waits and device of each rank on one axis. Times are nanoseconds. All text goes through textContent or a canvas, never markup.
(() => {
  "use strict";
  const section = document.getElementById("timeline");
  const data = JSON.parse(document.getElementById("data").textContent);
  section.hidden = false;
  const canvas = document.getElementById("canvas"), overview = document.getElementById("overview");
  const gutter = document.getElementById("gutter"), tip = document.getElementById("tip");
  const selected = document.getElementById("selected"), range = document.getElementById("range"), stepNow = document.getElementById("step-now");
  const RULER = 24, HEAD = 22, TRACK = 14, THIN = 8, WAITS = 14, GAP = 6, SHORTEST_VIEW = 200;

  // ---- data ----
  const unpack = (track, offset) => {
    const n = track.start.length, start = new Float64Array(n), end = new Float64Array(n);
    for (let i = 0, at = offset; i < n; i++) { at += track.start[i]; start[i] = at; end[i] = at + track.length[i]; }
    return { start, end, name: Int32Array.from(track.name), paint: Uint8Array.from(track.paint) };
  };
  const several = data.ranks.length > 1;
  const ranks = data.ranks.map((r) => ({
    rank: r.rank, open: data.ranks.length <= 2, from: r.offset, to: r.offset + r.end, hidden: r.hidden,
    steps: r.steps.map(([number, from, to]) => ({ number, from: from + r.offset, to: to + r.offset })),
    stalls: r.stalls.map(([at, wait, idle, gaps, row, step]) => {
      const from = at + r.offset, to = from + (wait || 0), pairs = [];
      for (let i = 0; i < gaps.length; i += 2) pairs.push([gaps[i] + r.offset, gaps[i] + r.offset + gaps[i + 1]]);
      return { rank: r.rank, from, to, after: Math.max(to, ...pairs.map((p) => p[1])), gaps: pairs, wait, idle, row, step };
    }),
    lanes: r.lanes.map((l) => ({ label: l.label, device: l.device, haze: l.haze, tracks: l.tracks.map((t) => unpack(t, r.offset)) })),
  }));
  const everyStall = ranks.flatMap((r) => r.stalls).sort((a, b) => a.from - b.from);
  const everyStep = (ranks.find((r) => r.steps.length) || { steps: [] }).steps;
  const whole = { from: Math.min(...ranks.map((r) => r.from)), to: Math.max(...ranks.map((r) => r.to)) };
  if (!(whole.to > whole.from)) whole.to = whole.from + 1000;
  const view = { ...whole };
  const stepped = ranks.flatMap((r) => r.steps);
  if (stepped.length) { // setting up can take longer than all steps: begin with these
    const from = Math.min(...stepped.map((s) => s.from)), to = Math.max(...stepped.map((s) => s.to)), pad = 0.01 * (to - from);
    if (to > from && to - from < 0.7 * (whole.to - whole.from)) { view.from = Math.max(whole.from, from - pad); view.to = Math.min(whole.to, to + pad); }
  }
  let row = null, current = null, hover = null, layout = [], height = 0, width = 0, colour = {};

  const firstEndAfter = (ends, time) => { let lo = 0, hi = ends.length; while (lo < hi) { const mid = (lo + hi) >> 1; if (ends[mid] > time) hi = mid; else lo = mid + 1; } return lo; };
  const time = (ns) => {
    if (ns === null || ns === undefined) return "unknown";
    const [unit, size] = Math.abs(ns) >= 999.5e6 ? ["s", 1e9] : Math.abs(ns) >= 999.5e3 ? ["ms", 1e6] : ["µs", 1e3];
    const x = ns / size;
    return `${Number(x.toFixed(Math.abs(x) >= 99.95 ? 0 : Math.abs(x) >= 9.995 ? 1 : 2)).toLocaleString("en")} ${unit}`;
  };
  const cost = (ns) => (data.predicted && ns !== null ? `≈ ${time(ns)}` : time(ns));
  const scale = () => width / (view.to - view.from);

  // ---- layout: one entry per drawn band ----
  const arrange = () => {
    layout = [];
    gutter.replaceChildren();
    let y = RULER;
    const label = (text, top, title) => { const e = document.createElement("span"); e.textContent = text; e.title = title || text; e.style.top = `${top}px`; gutter.append(e); };
    for (const r of ranks) {
      const top = y;
      const head = several || r.steps.length > 0;
      if (several) {
        const b = document.createElement("button");
        b.type = "button"; b.textContent = `Rank ${r.rank}`; b.style.top = `${y + 2}px`; b.setAttribute("aria-expanded", String(r.open));
        b.addEventListener("click", () => { r.open = !r.open; arrange(); draw(); gutter.querySelectorAll("button")[ranks.indexOf(r)].focus(); });
        gutter.append(b);
      }
      y += head ? HEAD : GAP;
      const band = (label, onDevice, tracks, h, haze) => { layout.push({ kind: "tracks", r, label, onDevice, tracks, y, h: h - 1, haze }); y += h; };
      const lane = (l, h) => {
        label(l.label, y - 1 + Math.max(0, (l.tracks.length * h - 16) / 2));
        if (l.tracks.length) l.tracks.forEach((t, i) => band(l.label, l.device !== null, [t], h, i ? [] : l.haze));
        else band(l.label, l.device !== null, [], h, l.haze);
        y += GAP;
      };
      const folded = (text, onDevice, lanes) => {
        if (!lanes.length) return;
        label(text, y - 2);
        band(text, onDevice, lanes.flatMap((l) => l.tracks.slice(0, 1)), THIN + 5, lanes[0].haze);
        y += GAP;
      };
      const hosts = r.lanes.filter((l) => l.device === null), devices = r.lanes.filter((l) => l.device !== null);
      if (r.open) hosts.forEach((l) => lane(l, TRACK)); else folded("host", false, hosts);
      label("waits", y - 1);
      layout.push({ kind: "waits", r, y, h: WAITS });
      y += WAITS + GAP;
      const firstDevice = y;
      if (r.open) devices.forEach((l) => lane(l, TRACK + 4)); else folded("device", true, devices);
      layout.unshift({ kind: "rank", r, y: top, h: y - top, deviceTop: firstDevice, deviceHeight: y - firstDevice - GAP });
    }
    height = y + 2;
    canvas.style.height = gutter.style.height = `${height}px`;
  };

  // ---- drawing ----
  const probe = document.createElement("span");
  probe.hidden = true;
  section.append(probe);
  const readColours = () => {
    for (const name of ["ink", "soft", "line", "rest", "wait", "wait-soft", "busy", "copy", "host", "host-soft", "sheet", "on-busy", "on-host"]) { probe.style.color = `var(--${name})`; colour[name] = getComputedStyle(probe).color; }
    // in the order of scene.py's Paint: region, operator, call, kernel, copy
    colour.paint = [colour.host, colour["host-soft"], colour.host, colour.busy, colour.copy];
    colour.text = [colour["on-host"], colour["on-host"], colour["on-host"], colour["on-busy"], colour["on-busy"]];
    const tile = document.createElement("canvas");
    tile.width = tile.height = 8;
    const g = tile.getContext("2d");
    g.strokeStyle = colour.wait; g.lineWidth = 1.4;
    for (const o of [-8, 0, 8]) { g.beginPath(); g.moveTo(o, 8); g.lineTo(o + 8, 0); g.stroke(); }
    colour.hatch = tile;
  };
  const fit = (c, h) => {
    const ratio = devicePixelRatio || 1, w = c.clientWidth;
    if (c.width !== Math.round(w * ratio) || c.height !== Math.round(h * ratio)) { c.width = Math.round(w * ratio); c.height = Math.round(h * ratio); }
    const g = c.getContext("2d");
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, w, h);
    return [g, w];
  };
  const ticks = (n) => { const raw = (view.to - view.from) / n, p = 10 ** Math.floor(Math.log10(raw)); return [1, 2, 5, 10].map((m) => m * p).find((s) => s >= raw); };
  // Draws spans at one pixel each at most: below that the search jumps to the next pixel, so a million events cost no more than the screen is wide.
  const spans = (g, ends, starts, k, each) => {
    for (let i = firstEndAfter(ends, view.from); i < starts.length && starts[i] < view.to;) {
      const x = (starts[i] - view.from) * k, w = (ends[i] - starts[i]) * k;
      each(i, x, w);
      if (w >= 1) i++;
      else i = Math.max(i + 1, firstEndAfter(ends, view.from + (Math.floor(x) + 1) / k));
    }
  };
  const drawTracks = (g, band, k) => {
    const { y, h, haze, r } = band;
    if (haze.length) {
      const cell = (r.to - r.from) / haze.length;
      g.fillStyle = band.onDevice ? colour.busy : colour.host;
      for (let i = Math.max(0, Math.floor((view.from - r.from) / cell)); i < haze.length && r.from + i * cell < view.to; i++) if (haze[i]) { g.globalAlpha = 0.15 + 0.0045 * haze[i]; g.fillRect((r.from + i * cell - view.from) * k, y, Math.max(cell * k, 0.5), h); }
      g.globalAlpha = 1;
    }
    for (const track of band.tracks) spans(g, track.end, track.start, k, (i, x, w) => {
      const left = Math.max(x, -2), right = Math.min(x + w, width + 2), paint = track.paint[i];
      g.fillStyle = colour.paint[paint];
      g.fillRect(left, y, Math.max(right - left - (w > 4 ? 1 : 0), 0.8), h);
      if (right - left > 40 && h >= 10) {
        g.save(); g.beginPath(); g.rect(left, y, right - left - 4, h); g.clip();
        g.fillStyle = colour.text[paint];
        g.fillText(data.names[track.name[i]], Math.max(left, 0) + 5, y + h / 2 + 0.5);
        g.restore();
      }
    });
  };
  const drawStalls = (g, band, k) => {
    const { r, y, h } = band;
    let last = -9;
    for (const pass of [0, 1]) for (const s of r.stalls) {
      const lit = row === null || s.row === row;
      if (s.to < view.from || s.from > view.to || lit !== (pass === 1)) continue;
      const x = (s.from - view.from) * k, w = (s.to - s.from) * k;
      if (w < 1 && x - last < 1 && s !== current && !pass) continue;
      last = x;
      g.globalAlpha = lit ? 1 : 0.25;
      g.fillStyle = colour.wait;
      g.fillRect(Math.max(x, -2), y, Math.max(Math.min(x + w, width + 2) - Math.max(x, -2), 2), h);
      if (s === current) { g.strokeStyle = colour.ink; g.lineWidth = 1.5; g.strokeRect(Math.max(x, -2) - 1.5, y - 2, Math.max(w, 2) + 3, h + 4); }
      g.globalAlpha = 1;
    }
  };
  const drawIdle = (g, band, k) => {
    if (band.deviceHeight <= 0) return;
    const pattern = g.createPattern(colour.hatch, "repeat");
    for (const s of band.r.stalls) {
      if (s.after < view.from || s.from > view.to) continue;
      g.globalAlpha = row === null || s.row === row ? 1 : 0.25;
      for (const [from, to] of s.gaps) {
        const x = Math.max((from - view.from) * k, -2), end = Math.min((to - view.from) * k, width + 2);
        if (end - x < 1) continue;
        g.fillStyle = colour["wait-soft"]; g.fillRect(x, band.deviceTop, end - x, band.deviceHeight);
        g.fillStyle = pattern; g.fillRect(x, band.deviceTop, end - x, band.deviceHeight);
      }
      g.globalAlpha = 1;
    }
  };
  const paint = () => {
    let g;
    [g, width] = fit(canvas, height);
    const k = scale(), font = getComputedStyle(document.body).fontFamily;
    g.font = `11px ${font}`; g.textBaseline = "middle";
    const step = ticks(Math.max(2, width / 110));
    g.fillStyle = colour.soft; g.strokeStyle = colour.line; g.lineWidth = 1;
    for (let t = Math.ceil((view.from - whole.from) / step) * step; whole.from + t <= view.to; t += step) {
      const x = Math.round((whole.from + t - view.from) * k) + 0.5;
      g.beginPath(); g.moveTo(x, RULER - 6); g.lineTo(x, height); g.stroke();
      const text = t ? time(t) : "0";
      g.textAlign = x < 4 ? "left" : "center";
      if (x > -20 && x < width - 20) g.fillText(text, x, 11);
    }
    g.textAlign = "left";
    for (const band of layout) {
      if (band.kind === "rank") {
        band.r.steps.forEach((s, i) => {
          if (s.to < view.from || s.from > view.to) return;
          const x = (s.from - view.from) * k, w = (s.to - s.from) * k;
          if (i % 2 === 0) { g.globalAlpha = 0.35; g.fillStyle = colour.rest; g.fillRect(x, band.y, w, band.h); g.globalAlpha = 1; }
          if (Math.min(x + w, width) - Math.max(x, 0) > 44) { g.fillStyle = colour.soft; g.fillText(`step ${s.number}`, Math.max(x, 0) + 6, band.y + 12); }
        });
        if (several) { g.fillStyle = colour.line; g.fillRect(0, band.y, width, 1); }
        drawIdle(g, band, k);
      } else if (band.kind === "tracks") drawTracks(g, band, k);
      else drawStalls(g, band, k);
    }
    paintOverview();
    range.textContent = view.from === whole.from && view.to === whole.to ? `${time(whole.to - whole.from)} in all` : `${time(view.from - whole.from)} to ${time(view.to - whole.from)} · ${time(view.to - view.from)} of ${time(whole.to - whole.from)}`;
    const shown = everyStep.find((s) => Math.min(s.to, view.to) - Math.max(s.from, view.from) > 0.6 * (view.to - view.from));
    stepNow.textContent = shown && everyStep.length > 1 ? `Step ${shown.number}` : "Step";
    canvas.dataset.from = view.from - whole.from; canvas.dataset.to = view.to - whole.from;
  };
  const paintOverview = () => {
    const [g, w] = fit(overview, 32), k = w / (whole.to - whole.from), each = 32 / ranks.length;
    ranks.forEach((r, i) => {
      const y = 3 + i * (26 / ranks.length), h = Math.max(1, 26 / ranks.length - (each > 4 ? 1 : 0));
      for (const l of r.lanes) for (const t of l.tracks.slice(0, 1)) {
        let last = -1;
        g.fillStyle = l.device === null ? colour["host-soft"] : colour.busy;
        for (let j = 0; j < t.start.length;) { const x = (t.start[j] - whole.from) * k, wide = (t.end[j] - t.start[j]) * k; g.fillRect(x, l.device === null ? y : y + h * 0.62, Math.max(wide, 0.6), l.device === null ? h * 0.56 : h * 0.38); last = Math.floor(x); j = wide >= 1 ? j + 1 : Math.max(j + 1, firstEndAfter(t.end, whole.from + (last + 1) / k)); }
      }
      g.fillStyle = colour.wait;
      let last = -9;
      for (const s of r.stalls) { const x = (s.from - whole.from) * k, wide = (s.to - s.from) * k; if (row !== null && s.row !== row) continue; if (x - last < 0.7 && wide < 1) continue; g.fillRect(x, y, Math.max(wide, 1.2), h * 0.56); last = x; }
    });
    const a = (view.from - whole.from) * k, b = (view.to - whole.from) * k;
    if (a > 0.5 || b < w - 0.5) {
      g.fillStyle = colour.sheet; g.globalAlpha = 0.72; g.fillRect(0, 0, a, 32); g.fillRect(b, 0, w - b, 32); g.globalAlpha = 1;
      g.strokeStyle = colour.ink; g.lineWidth = 1.5; g.strokeRect(a + 0.75, 0.75, Math.max(b - a - 1.5, 2), 30.5);
    }
  };
  let asked = false;
  const draw = () => { if (!asked) { asked = true; requestAnimationFrame(() => { asked = false; paint(); }); } };

  // ---- moving ----
  const show = (from, to) => {
    const span = Math.min(Math.max(to - from, SHORTEST_VIEW), whole.to - whole.from), middle = (from + to) / 2;
    view.from = Math.min(Math.max(middle - span / 2, whole.from), whole.to - span);
    view.to = view.from + span;
    draw();
  };
  const zoom = (factor, at = (view.from + view.to) / 2) => { const span = Math.min(Math.max((view.to - view.from) / factor, SHORTEST_VIEW), whole.to - whole.from); const part = (at - view.from) / (view.to - view.from); show(at - part * span, at - part * span + span); };
  const pan = (share) => { const d = share * (view.to - view.from); show(view.from + d, view.to + d); };
  const showStep = (s) => { const pad = 0.02 * (s.to - s.from); show(s.from - pad, s.to + pad); };
  const stepBy = (d) => {
    if (!everyStep.length) return;
    const middle = (view.from + view.to) / 2;
    const all = view.to - view.from > 0.98 * (whole.to - whole.from);
    let i = everyStep.findIndex((s) => s.to > middle);
    if (i < 0) i = everyStep.length - 1;
    const next = everyStep[Math.min(Math.max(all ? (d > 0 ? 0 : everyStep.length - 1) : i + d, 0), everyStep.length - 1)];
    showStep(next);
    selected.textContent = `Step ${next.number}, ${time(next.to - next.from)}.`;
  };
  const words = (s) => {
    const site = data.sites[s.row], of = everyStall.filter((x) => row === null || x.row === row);
    return [`Stall ${of.indexOf(s) + 1} of ${of.length}`, site ? site.place : null, site ? site.cause : null, `host waited ${cost(s.wait)}`, `device idle ${cost(s.idle)}`, s.step === null ? null : `step ${s.step}`, several ? `rank ${s.rank}` : null].filter(Boolean).join(" · ");
  };
  const stallBy = (d) => {
    const of = everyStall.filter((s) => row === null || s.row === row);
    if (!of.length) { selected.textContent = "No stall has a time to show."; return; }
    let i = current ? of.indexOf(current) + d : d > 0 ? of.findIndex((s) => s.to >= view.from) : of.length - 1;
    i = (Math.max(i, d > 0 ? 0 : -1) + of.length) % of.length;
    go(of[i]);
  };
  const go = (s) => {
    current = s;
    const length = Math.max(s.after - s.from, 1000), span = Math.min(view.to - view.from, Math.max(6 * length, 20000));
    show((s.from + s.after) / 2 - span / 2, (s.from + s.after) / 2 + span / 2);
    selected.textContent = words(s);
  };
  const actions = {
    in: () => zoom(2), out: () => zoom(0.5), fit: () => show(whole.from, whole.to),
    "previous-step": () => stepBy(-1), "next-step": () => stepBy(1), "previous-stall": () => stallBy(-1), "next-stall": () => stallBy(1),
    clear: () => { current = null; selected.textContent = ""; if (row !== null) document.dispatchEvent(new Event("unselect")); draw(); },
    left: () => pan(-0.15), right: () => pan(0.15),
  };
  for (const b of section.querySelectorAll("[data-do]")) b.addEventListener("click", () => actions[b.dataset.do]());
  if (!everyStep.length) section.querySelector(".set.steps").hidden = true;
  const keys = { ArrowLeft: "left", ArrowRight: "right", a: "left", d: "right", "+": "in", "=": "in", w: "in", "-": "out", s: "out", 0: "fit", Home: "fit", n: "next-stall", p: "previous-stall", "]": "next-step", "[": "previous-step", Escape: "clear" };
  canvas.addEventListener("keydown", (e) => {
    const action = keys[e.key.length === 1 ? e.key.toLowerCase() : e.key];
    if (!action || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    actions[action]();
  });

  // ---- pointer ----
  const timeAt = (e) => view.from + (e.clientX - canvas.getBoundingClientRect().left) / scale();
  canvas.addEventListener("wheel", (e) => {
    if (e.ctrlKey || e.metaKey) { e.preventDefault(); zoom(Math.exp(-e.deltaY * (e.deltaMode ? 0.05 : 0.0022)), timeAt(e)); }
    else if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) { e.preventDefault(); pan(e.deltaX / width); }
  }, { passive: false });
  canvas.addEventListener("dblclick", (e) => zoom(e.shiftKey ? 1 / 3 : 3, timeAt(e)));
  let grabbed = null;
  canvas.addEventListener("pointerdown", (e) => { if (e.button === 0) { grabbed = { x: e.clientX, from: view.from, to: view.to, moved: false }; canvas.setPointerCapture(e.pointerId); } });
  canvas.addEventListener("pointerup", (e) => {
    const g = grabbed;
    grabbed = null;
    canvas.classList.remove("moving");
    if (g && !g.moved) { const hit = find(e); if (hit && hit.stall) { current = hit.stall; selected.textContent = words(current); } else if (hit) selected.textContent = `${hit.name} · ${time(hit.to - hit.from)} · ${hit.lane}`; draw(); }
  });
  canvas.addEventListener("pointercancel", () => { grabbed = null; canvas.classList.remove("moving"); });
  canvas.addEventListener("pointermove", (e) => {
    if (grabbed) {
      const d = e.clientX - grabbed.x;
      if (Math.abs(d) > 3) { grabbed.moved = true; canvas.classList.add("moving"); }
      if (grabbed.moved) { const k = scale(); show(grabbed.from - d / k, grabbed.to - d / k); tip.hidden = true; return; }
    }
    hover = find(e);
    tip.hidden = !hover;
    if (hover) place(e);
  });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });

  const find = (e) => {
    const box = canvas.getBoundingClientRect(), y = e.clientY - box.top, t = timeAt(e), slack = 3 / scale();
    for (const band of layout) {
      if (band.kind === "rank" || y < band.y - 1 || y > band.y + band.h + 1) continue;
      if (band.kind === "waits") {
        let best = null;
        for (const s of band.r.stalls) if (s.from - slack <= t && t <= Math.max(s.to, s.from) + slack && (!best || (row !== null && s.row === row) || s.to - s.from > best.to - best.from)) best = s;
        return best && { stall: best };
      }
      for (const track of band.tracks) {
        const i = firstEndAfter(track.end, t - slack);
        if (i < track.start.length && track.start[i] <= t + slack) return { name: data.names[track.name[i]], from: track.start[i], to: track.end[i], lane: band.label };
      }
      return null;
    }
    return null;
  };
  const place = (e) => {
    const lines = hover.stall
      ? (() => { const site = data.sites[hover.stall.row]; return [site ? site.place : "line unknown", site && site.code, site && site.cause, `host waited ${cost(hover.stall.wait)} · device idle ${cost(hover.stall.idle)}`]; })()
      : [hover.name, `${time(hover.to - hover.from)}, from ${time(hover.from - whole.from)}`, hover.lane];
    tip.replaceChildren(...lines.filter(Boolean).map((text, i) => { const p = document.createElement(i ? "div" : "b"); p.textContent = text; return p; }));
    const box = canvas.parentElement.getBoundingClientRect();
    const x = e.clientX - box.left, y = e.clientY - box.top;
    tip.style.left = `${Math.max(4, Math.min(x + 14, box.width - tip.offsetWidth - 6))}px`;
    tip.style.top = `${y + 18 + tip.offsetHeight > box.height ? Math.max(4, y - tip.offsetHeight - 12) : y + 18}px`;
  };
  const jump = (e) => { const box = overview.getBoundingClientRect(), t = whole.from + ((e.clientX - box.left) / box.width) * (whole.to - whole.from), half = (view.to - view.from) / 2; show(t - half, t + half); };
  overview.addEventListener("pointerdown", (e) => { overview.setPointerCapture(e.pointerId); jump(e); });
  overview.addEventListener("pointermove", (e) => { if (e.buttons) jump(e); });

  // ---- with the rest of the page ----
  document.addEventListener("row", (e) => {
    row = e.detail;
    current = null;
    selected.textContent = "";
    if (row !== null) { stallBy(1); section.scrollIntoView({ block: "nearest" }); canvas.focus({ preventScroll: true }); }
    draw();
  });
  for (const b of document.querySelectorAll(".step")) b.addEventListener("click", () => {
    const r = ranks.find((x) => x.rank === Number(b.dataset.rank)), s = r && r.steps.find((x) => x.number === Number(b.dataset.step));
    if (s) { showStep(s); section.scrollIntoView({ block: "nearest" }); canvas.focus({ preventScroll: true }); }
  });
  document.addEventListener("theme", () => { readColours(); paint(); });
  new ResizeObserver(draw).observe(canvas);
  readColours();
  arrange();
  paint();
})();
