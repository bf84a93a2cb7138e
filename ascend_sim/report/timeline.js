// Draws every instruction of the block that the reader chooses. A block is unpacked when it is first looked at; what is
// narrower than a pixel is gathered to how busy the pipe was. A page of several runs has timelines side by side, which zoom
// together: each counts from its `data-origin`, in cycles, and has `data-until` us in sight at first.
"use strict";
(function () {
  const holder = document.getElementById("blocks");
  if (!holder) { return; }
  const runs = [].concat(JSON.parse(holder.textContent));
  const LEFT = 62, RIGHT = 8, TOP = 20, BOTTOM = 30, ROW = 50, BOX = 30, STALL = 7;
  const MOST_FLAGS = 250, WINDOW = 300;
  const unpacked = new Map(), views = {};

  const told = (number) => Math.round(number).toLocaleString("en-US");

  // -- what a block holds -----------------------------------------------------------------------------------------------

  async function unpack(block, run) {
    const bytes = Uint8Array.from(atob(block.data), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    const raw = new Uint8Array(await new Response(stream).arrayBuffer());
    let at = 0;
    const take = (count) => {
      const column = new Float64Array(count);
      for (let i = 0; i < count; i++) {
        let value = 0, scale = 1, byte;
        do { byte = raw[at++]; value += (byte & 127) * scale; scale *= 128; } while (byte > 127);
        column[i] = value % 2 ? -(value + 1) / 2 : value / 2;
      }
      return column;
    };
    const summed = (column) => { for (let i = 1; i < column.length; i++) { column[i] += column[i - 1]; } return column; };
    const table = run.tables[block.table], rows = block.rows;
    const instruction = take(rows);
    const sinceLast = (column) => {
      const last = new Float64Array(table.length);
      return column.map((value, row) => (last[instruction[row]] += value));
    };
    const one = { block, table, rows, instruction, start: take(rows), end: take(rows), retire: take(rows), cause: take(rows),
      tile: summed(take(rows)), operands: [0, 1, 2].map(() => ({ slot: sinceLast(take(rows)), offset: sinceLast(take(rows)) })),
      l2_wait: take(rows), hbm_wait: take(rows), hbm_bytes: take(rows) };
    const [marked] = take(1);
    one.critical = new Set(summed(take(marked)));
    one.line = summed(take(rows));
    const pipes = run.pipes.map(() => ({ rows: [], stalls: [], free: block.begin, busy: 0 }));
    for (let row = 0; row < rows; row++) {
      const kind = table[instruction[row]], pipe = pipes[kind.pipe], before = pipe.free;
      one.start[row] += before;
      one.end[row] += one.start[row];
      one.retire[row] += one.end[row];
      pipe.free = one.end[row];
      pipe.used = true;
      const length = one.end[row] - one.start[row];
      if (!kind.idle && length > 0) { pipe.rows.push(row); }
      if (kind.pipe === 0) { continue; }
      if (one.start[row] > before) {
        pipe.stalls.push([before, one.start[row], kind.idle ? "nothing to do" : run.causes[one.cause[row]]]);
      }
      if (kind.idle && length > 0) { pipe.stalls.push([one.start[row], one.end[row], kind.idle]); }
    }
    for (const pipe of pipes) {
      pipe.starts = Float64Array.from(pipe.rows, (row) => one.start[row]);
      pipe.ends = Float64Array.from(pipe.rows, (row) => one.end[row]);
      pipe.work = new Float64Array(pipe.rows.length + 1);
      pipe.rows.forEach((row, i) => { pipe.work[i + 1] = pipe.work[i] + one.end[row] - one.start[row]; });
      pipe.held = Float64Array.from(pipe.stalls, (stall) => stall[1]);
    }
    one.pipes = pipes;
    one.flags = flagPairs(one);
    return one;
  }

  // The k-th wait for a flag waits for its k-th set; a disarmed one waits for nothing.
  function flagPairs(one) {
    const sets = {}, taken = {}, pairs = [];
    for (let row = 0; row < one.rows; row++) {
      const kind = one.table[one.instruction[row]];
      if (kind.flag && kind.waits === undefined) { (sets[kind.flag] ||= []).push(row); }
    }
    for (let row = 0; row < one.rows; row++) {
      const kind = one.table[one.instruction[row]];
      if (!kind.flag || kind.waits === undefined) { continue; }
      const turn = (taken[kind.flag] = (taken[kind.flag] ?? -1) + 1);
      if (kind.waits) { pairs.push([sets[kind.flag][turn], row]); }
    }
    return pairs.sort((a, b) => one.end[a[1]] - one.end[b[1]]);
  }

  // The first place whose value is above `limit`, of ascending values.
  function above(values, limit) {
    let low = 0, high = values.length;
    while (low < high) { const middle = (low + high) >> 1; if (values[middle] > limit) { high = middle; } else { low = middle + 1; } }
    return low;
  }

  function busyUntil(pipe, time) {
    const begun = above(pipe.starts, time);
    return begun ? pipe.work[begun - 1] + Math.min(time, pipe.ends[begun - 1]) - pipe.starts[begun - 1] : 0;
  }

  // -- one picture ------------------------------------------------------------------------------------------------------

  class View {
    constructor(place) {
      this.place = place;
      this.task = Number(place.dataset.task);
      this.run = runs[place.dataset.run ?? 0];
      this.origin = Number(place.dataset.origin ?? this.run.origin);
      this.canvas = place.querySelector("canvas");
      this.tip = place.querySelector(".tip");
      this.core = place.querySelector("select.core");
      this.choice = place.querySelector("select.block");
      this.blocks = this.run.blocks.filter((block) => block.task === this.task);
      const cores = [...new Set(this.blocks.map((block) => block.core))];
      this.core.append(...cores.map((core) => new Option(core, core)));
      this.core.addEventListener("change", () => { this.listBlocks(); this.choose(Number(this.choice.value)); });
      this.choice.addEventListener("change", () => this.choose(Number(this.choice.value)));
      place.querySelectorAll("button[data-show]").forEach((button) =>
        button.addEventListener("click", () => this.press(button.dataset.show)));
      this.listen();
      new ResizeObserver(() => this.draw()).observe(this.canvas);
      this.choose(Number(place.dataset.first));
    }

    us(cycles) { return (cycles - this.origin) / this.run.mhz; }
    cyclesAt(time) { return time * this.run.mhz + this.origin; }
    get times() { return this.range?.map((one) => this.us(one)); }

    listBlocks() {
      const here = this.blocks.filter((block) => block.core === this.core.value);
      this.choice.replaceChildren(...here.map((block) =>
        new Option(`${block.name}: ${told(block.rows)} instructions, ${this.us(block.begin).toFixed(2)} to ${this.us(block.finish).toFixed(2)} us`, block.index)));
    }

    // Whether the page holds a block; it is drawn then.
    async chosen(index) {
      if (!this.run.blocks.some((one) => one.index === index)) { this.say("This block is not in the page: see what is left out above."); return false; }
      await this.choose(index);
      return true;
    }

    async choose(index, range) {
      const block = this.run.blocks.find((one) => one.index === index);
      this.core.value = block.core;
      this.listBlocks();
      this.choice.value = index;
      this.place.dataset.ready = "no";
      this.marked = this.clash = undefined;
      delete this.place.dataset.race;
      this.wanted = index;
      if (!unpacked.has(block)) { unpacked.set(block, await unpack(block, this.run)); }
      if (this.wanted !== index) { return; }
      this.one = unpacked.get(block);
      this.used = this.one.pipes.map((pipe, number) => [pipe, number]).filter(([pipe]) => pipe.used);
      this.canvas.style.height = `${TOP + BOTTOM + ROW * this.used.length}px`;
      const { until } = this.place.dataset;
      this.whole = until ? [this.origin, this.cyclesAt(Number(until))] : [block.begin, Math.max(block.finish, block.begin + 1)];
      this.show(range || this.whole);
      this.place.dataset.block = index;
      this.place.dataset.ready = "yes";
      this.place.dispatchEvent(new CustomEvent("block", { bubbles: true, detail: index }));
    }

    show([low, high], told = true) {
      const least = 8, middle = (low + high) / 2;
      if (high - low < least) { [low, high] = [middle - least / 2, middle + least / 2]; }
      this.range = [low, high];
      this.draw();
      if (told) { this.place.dispatchEvent(new CustomEvent("range", { bubbles: true, detail: this.times })); }
    }

    press(what) {
      const [low, high] = this.range, middle = (low + high) / 2, half = (high - low) / 2;
      if (what === "in") { this.show([middle - half / 2, middle + half / 2]); return; }
      if (what === "out") { this.show([middle - half * 2, middle + half * 2]); return; }
      if (what === "left" || what === "right") { const by = (what === "left" ? -1 : 1) * half; this.show([low + by, high + by]); return; }
      const order = Float64Array.from(this.one.start).sort(), ends = Float64Array.from(this.one.retire).sort();
      const last = order.length - 1, count = Math.min(WINDOW, last), from = above(order, (this.whole[0] + this.whole[1]) / 2) - 1;
      const first = Math.max(0, Math.min(from - (count >> 1), last - count));
      this.show({ whole: this.whole, start: [order[0], order[count]], middle: [order[first], order[first + count]],
        end: [order[last - count], ends[last]] }[what]);
    }

    x(time) { return LEFT + (time - this.range[0]) / (this.range[1] - this.range[0]) * this.width; }
    time(x) { return this.range[0] + (x - LEFT) / this.width * (this.range[1] - this.range[0]); }

    draw() {
      if (!this.one || this.canvas.offsetParent === null) { return; }
      const scale = window.devicePixelRatio || 1, box = this.canvas.getBoundingClientRect();
      this.canvas.width = Math.round(box.width * scale);
      this.canvas.height = Math.round(box.height * scale);
      this.width = box.width - LEFT - RIGHT;
      const ink = this.canvas.getContext("2d"), style = getComputedStyle(document.body);
      this.colors = { text: style.color, line: style.getPropertyValue("--line"), faint: style.getPropertyValue("--faint") };
      ink.scale(scale, scale);
      ink.font = "12px system-ui, sans-serif";
      this.drawn = 0;
      this.gathered = 0;
      this.axis(ink, box);
      ink.save();
      ink.beginPath();
      ink.rect(LEFT, 0, this.width, box.height);
      ink.clip();
      this.used.forEach(([pipe, number], place) => this.row(ink, pipe, this.run.pipes[number], TOP + place * ROW));
      this.arrows(ink);
      this.marks(ink, box);
      if (this.drag) {
        ink.fillStyle = "rgba(11,107,181,0.18)";
        ink.fillRect(Math.min(...this.drag), TOP, Math.abs(this.drag[1] - this.drag[0]), box.height - TOP - BOTTOM);
      }
      ink.restore();
      Object.assign(this.place.dataset, { drawn: this.drawn, gathered: this.gathered, range: this.range.map((one) => one.toFixed(1)).join(" ") });
    }

    axis(ink, box) {
      const [low, high] = this.times, least = (high - low) / Math.max(this.width / 90, 1);
      const power = 10 ** Math.floor(Math.log10(least)), step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= least);
      const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
      ink.textAlign = "center";
      for (let tick = Math.ceil(low / step) * step; tick <= high; tick += step) {
        const x = this.x(this.cyclesAt(tick));
        ink.fillStyle = this.colors.line;
        ink.fillRect(x, TOP - 4, 1, box.height - TOP - BOTTOM + 4);
        ink.fillStyle = this.colors.text;
        const text = tick.toFixed(decimals), inside = box.width - ink.measureText(text).width / 2;
        ink.fillText(text, Math.min(x, inside), box.height - BOTTOM + 13);
      }
      ink.fillStyle = this.colors.faint;
      ink.fillText("us", LEFT + this.width / 2, box.height - 3);
      ink.textAlign = "left";
      ink.fillStyle = this.colors.text;
      this.used.forEach(([, number], place) => ink.fillText(this.run.pipes[number], 4, TOP + place * ROW + 20));
    }

    row(ink, pipe, name, y) {
      const [low, high] = this.range, first = above(pipe.ends, low), last = above(pipe.starts, high);
      ink.fillStyle = this.run.colors[name];
      if (last - first > this.width / 2) {
        this.gathered += last - first;
        const step = (high - low) / this.width;
        let before = busyUntil(pipe, low);
        ink.globalAlpha = 0.55;
        for (let x = 0; x < this.width; x++) {
          const until = busyUntil(pipe, low + (x + 1) * step), height = BOX * Math.min((until - before) / step, 1);
          ink.fillRect(LEFT + x, y + BOX - height, 1, height);
          before = until;
        }
        ink.globalAlpha = 1;
      } else {
        this.drawn += last - first;
        for (let i = first; i < last; i++) { this.box(ink, pipe, i, y, name); }
      }
      const begin = above(pipe.held, low);
      let end = begin;
      while (end < pipe.stalls.length && pipe.stalls[end][0] < high) { end++; }
      if (end - begin > this.width) { return; }
      for (let i = begin; i < end; i++) {
        const [from, until, cause] = pipe.stalls[i];
        ink.fillStyle = this.run.stalls[cause] || this.run.stalls[""];
        ink.fillRect(this.x(from), y + BOX + 3, Math.max(this.x(until) - this.x(from), 0.7), STALL);
      }
    }

    box(ink, pipe, i, y, name) {
      const row = pipe.rows[i], x = this.x(pipe.starts[i]), width = Math.max(this.x(pipe.ends[i]) - x, 0.7);
      ink.fillStyle = this.run.colors[name];
      ink.fillRect(x, y, width, BOX);
      if (width > 3) { ink.strokeStyle = "rgba(127,127,127,0.7)"; ink.lineWidth = 0.5; ink.strokeRect(x, y, width, BOX); }
      if (this.one.critical.has(row)) { this.mark(ink, x, y, width); }
      const left = Math.max(x, LEFT), seen = Math.min(x + width, LEFT + this.width) - left, text = this.one.table[this.one.instruction[row]].name;
      if (seen > 8 + 6.6 * text.length) { ink.fillStyle = "#101418"; ink.fillText(text, left + 4, y + 19); }
    }

    // The critical path: an outline, and a hatch, which need no colour to be seen.
    mark(ink, x, y, width) {
      ink.strokeStyle = this.colors.text;
      ink.lineWidth = 2;
      ink.strokeRect(x + 1, y + 1, Math.max(width - 2, 0.5), BOX - 2);
      ink.save();
      ink.beginPath();
      ink.rect(x, y, width, BOX);
      ink.clip();
      ink.beginPath();
      ink.lineWidth = 0.8;
      const from = Math.max(x, LEFT), until = Math.min(x + width, LEFT + this.width);
      for (let at = from - BOX; at < until; at += 7) { ink.moveTo(at, y + BOX); ink.lineTo(at + BOX, y); }
      ink.stroke();
      ink.restore();
    }

    arrows(ink) {
      const { flags, retire, end, table, instruction } = this.one, [low, high] = this.range;
      const seen = flags.filter(([from, to]) => end[to] >= low && retire[from] <= high);
      if (seen.length > MOST_FLAGS) { return; }
      const height = Object.fromEntries(this.used.map(([, number], place) => [number, TOP + place * ROW + BOX / 2]));
      ink.strokeStyle = this.run.stalls.flag;
      ink.lineWidth = 1;
      for (const [from, to] of seen) {
        ink.beginPath();
        ink.moveTo(this.x(retire[from]), height[table[instruction[from]].pipe]);
        ink.lineTo(this.x(end[to]), height[table[instruction[to]].pipe]);
        ink.stroke();
      }
    }

    marks(ink, box) {
      for (const one of this.run.clashes) {
        if (one.late.block !== this.one.block.index) { continue; }
        const x = this.x(one.start);
        ink.fillStyle = "#d00000";
        ink.beginPath();
        ink.moveTo(x, TOP);
        ink.lineTo(x - 5, TOP - 9);
        ink.lineTo(x + 5, TOP - 9);
        ink.fill();
      }
      if (this.clash) { this.drawRace(ink, box); }
      if (this.marked === undefined) { return; }
      const { start, end, table, instruction } = this.one, kind = table[instruction[this.marked]];
      const place = this.used.findIndex(([, number]) => number === kind.pipe), x = this.x(start[this.marked]);
      ink.strokeStyle = this.colors.text;
      ink.lineWidth = 2;
      ink.strokeRect(x - 1, TOP + place * ROW - 2, Math.max(this.x(end[this.marked]) - x, 1) + 2, BOX + 4);
    }

    // One instruction, with as much around it as it is long, marked, and said.
    reveal(row) {
      const { start, end } = this.one, length = Math.max(end[row] - start[row], 40);
      this.marked = row;
      this.show([start[row] - 3 * length, end[row] + 3 * length]);
      this.canvas.scrollIntoView({ block: "center" });
      this.say(...this.words(row));
      const place = this.used.findIndex(([, number]) => number === this.one.table[this.one.instruction[row]].pipe);
      this.put(this.x(start[row]), TOP + place * ROW + BOX);
    }

    // Who was under way and who came: both boxes, and the cycles in which they met.
    race(clash) {
      const { early, late, start, retire } = clash, { block } = this.one, times = this.one;
      const from = early.block === block.index ? times.start[early.row] : start, length = Math.max(retire - from, times.end[late.row] - start, 40);
      this.clash = clash;
      this.show([Math.min(from, start) - length / 2, Math.max(retire, times.end[late.row]) + length]);
      this.canvas.scrollIntoView({ block: "center" });
      this.say(clash.text);
      this.put(this.x(Math.max(retire, start)), this.canvas.clientHeight - BOTTOM);
      this.place.dataset.race = "yes";
    }

    drawRace(ink, box) {
      const { early, late, start, retire, where } = this.clash, { table, instruction } = this.one, middle = {};
      ink.fillStyle = "rgba(208,0,0,0.16)";
      ink.fillRect(this.x(start), TOP, Math.max(this.x(retire) - this.x(start), 2), box.height - TOP - BOTTOM);
      for (const [name, access] of Object.entries({ early, late })) {
        if (access.block !== this.one.block.index) { continue; }
        const begin = this.x(this.one.start[access.row]), until = this.x(name === "early" ? retire : this.one.end[access.row]);
        const y = TOP + ROW * this.used.findIndex(([, number]) => number === table[instruction[access.row]].pipe);
        ink.strokeStyle = "#d00000";
        ink.lineWidth = 2.5;
        ink.setLineDash(name === "early" ? [5, 3] : []);
        ink.strokeRect(begin, y - 2, Math.max(until - begin, 2), BOX + 4);
        ink.setLineDash([]);
        ink.fillStyle = this.colors.text;
        ink.fillText(`${access.words} ${where}${name === "early" ? ` until cycle ${told(retire)}` : ` from cycle ${told(start)}`}`,
          Math.max(begin, LEFT) + 4, y + BOX + 14);
        middle[name] = y + BOX / 2;
      }
      if (middle.early === undefined || middle.late === undefined) {
        ink.fillStyle = this.colors.text;
        ink.fillText(`another core ${early.words.split(" ").pop()} ${where} until cycle ${told(retire)}`, this.x(start) + 4, TOP - 6);
        return;
      }
      ink.strokeStyle = "#d00000";
      ink.beginPath();
      ink.moveTo(this.x(start), middle.early);
      ink.lineTo(this.x(start), middle.late);
      ink.stroke();
    }

    say(...lines) {
      this.tip.replaceChildren(...lines.map((line, i) => { const part = document.createElement(i ? "div" : "b"); part.textContent = line; return part; }));
      this.tip.hidden = false;
    }

    put(x, y) {
      this.tip.style.left = `${Math.max(0, Math.min(x + 14, this.place.clientWidth - this.tip.offsetWidth - 4))}px`;
      this.tip.style.top = `${this.canvas.offsetTop + y + 18}px`;
    }

    // -- the reader's hand ----------------------------------------------------------------------------------------------

    listen() {
      const at = (event) => { const box = this.canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
      this.canvas.addEventListener("pointerdown", (event) => {
        if (event.button) { return; }
        this.canvas.setPointerCapture(event.pointerId);
        const [x] = at(event);
        this.drag = [x, x];
        this.pan = event.pointerType === "touch" || event.shiftKey ? this.range : null;
      });
      this.canvas.addEventListener("pointermove", (event) => {
        const [x, y] = at(event);
        if (!this.drag) { this.hover(x, y); return; }
        this.drag[1] = x;
        if (this.pan) {
          const by = (this.drag[0] - x) / this.width * (this.pan[1] - this.pan[0]);
          this.show(this.pan.map((one) => one + by));
        } else { this.draw(); }
      });
      this.canvas.addEventListener("pointerup", (event) => {
        const [from, to] = this.drag || [0, 0], pan = this.pan;
        this.drag = this.pan = null;
        if (pan || Math.abs(to - from) < 4) { this.draw(); this.hover(...at(event)); return; }
        this.show([Math.min(from, to), Math.max(from, to)].map((x) => this.time(x)));
      });
      this.canvas.addEventListener("pointercancel", () => { this.drag = this.pan = null; this.draw(); });
      this.canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
      this.canvas.addEventListener("dblclick", () => this.show(this.whole));
      this.canvas.addEventListener("wheel", (event) => {
        event.preventDefault();
        const middle = this.time(at(event)[0]), by = Math.exp(Math.sign(event.deltaY) * 0.25);
        this.show(this.range.map((one) => middle + (one - middle) * by));
      }, { passive: false });
      this.canvas.addEventListener("keydown", (event) => {
        const what = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", Home: "whole" }[event.key];
        if (what) { event.preventDefault(); this.press(what); }
      });
    }

    hover(x, y) {
      const place = Math.floor((y - TOP) / ROW), inside = (y - TOP) % ROW;
      this.tip.hidden = true;
      if (!this.one || x < LEFT || place < 0 || place >= this.used.length) { return; }
      const [pipe, number] = this.used[place], time = this.time(x), slack = 2 / this.width * (this.range[1] - this.range[0]);
      let lines = [];
      if (inside <= BOX) {
        const near = above(pipe.starts, time + slack) - 1;
        if (near >= 0 && pipe.ends[near] >= time - slack) { lines = this.words(pipe.rows[near]); }
      } else {
        const near = above(pipe.held, time - slack), stall = pipe.stalls[near];
        if (stall && stall[0] <= time + slack) { lines = [`${this.run.pipes[number]} stands still: ${stall[2]}`, `${told(stall[1] - stall[0])} cycles`]; }
      }
      if (!lines.length) { return; }
      this.say(...lines);
      this.put(x, y);
    }

    // An instruction in full: parameters, addresses, bytes, cycles.
    words(row) {
      const one = this.one, kind = one.table[one.instruction[row]], names = this.run.tensors[this.task];
      const lines = [`${kind.name} (row ${row}, tile ${one.tile[row]})`];
      if (kind.fields) { lines.push(kind.fields); }
      ["dst", "src0", "src1"].forEach((name, place) => {
        const space = kind.spaces[place], { slot, offset } = one.operands[place];
        if (space) { lines.push(`${name} = ${space === "GM" ? `GM ${names[slot[row]]} + ` : `${space} + `}0x${offset[row].toString(16)}`); }
      });
      if (kind.bytes) { lines.push(`${told(kind.bytes)} bytes`); }
      lines.push(`cycles ${told(one.start[row])} to ${told(one.end[row])}: ${told(one.end[row] - one.start[row])}, retires ${told(one.retire[row])}`);
      if (kind.path.includes("GM")) {
        lines.push(`HBM ${told(one.hbm_bytes[row])} bytes, limited by L2 ${told(one.l2_wait[row])}, by HBM ${told(one.hbm_wait[row])}`);
      }
      if (one.critical.has(row)) { lines.push("on the critical path"); }
      if (one.line[row] >= 0) { lines.push(this.run.lines[one.line[row]]); }
      return lines;
    }
  }

  // Timelines side by side show the same times.
  document.addEventListener("range", (event) => {
    const others = [...event.target.closest("section")?.querySelectorAll(".blocks") ?? []].filter((place) => place !== event.target);
    others.forEach((place) => window.ascendTimelines.show(named(place), event.detail));
  });

  // A timeline has the name of its kernel, and side by side with others that of its element.
  const named = (place) => place.dataset.run ? place.id : place.dataset.task;

  // Views are made when their kernel is first seen.
  window.ascendTimelines = {
    views,
    range(time) { return views[time]?.times; },
    show(time, range) {
      const view = views[time];
      if (view?.times?.some((one, i) => Math.abs(one - range[i]) > 1e-6)) { view.show(range.map((one) => view.cyclesAt(one)), false); }
    },
    async reveal(time, index, row) {
      if (await views[time].chosen(index)) { views[time].reveal(row); }
    },
    kernelOf(number) { return String(runs[0].tasks[runs[0].clashes[number].late.block]); },
    async race(time, number) {
      const clash = runs[0].clashes[number];
      if (await views[time].chosen(clash.late.block)) { views[time].race(clash); }
    },
    seen() {
      for (const place of document.querySelectorAll(".blocks")) {
        if (place.offsetParent === null) { continue; }
        if (views[named(place)]) { views[named(place)].draw(); } else { views[named(place)] = new View(place); }
      }
    },
  };
})();
