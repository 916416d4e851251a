// SPDX-License-Identifier: Apache-2.0 OR MIT
// One channel: the groups of devices of a Bare-NVDIMM, their row buffers, and when they are busy.
//
// A group is three devices: half, half and their exclusive or (XCC). It has one open page, and up
// to W programmings under way or booked (*slots*), each with the lines it programs in a bank of the
// line store. Operations come in the order of the requests, one a cycle. Each is booked when it
// comes, at moments that may lie ahead: devices have fixed times, so the channel knows them.
// Sequencers then start what is booked, LAG cycles after its moment, always the same.
//
// Invariants:
// - A line whose programming is booked and not over is read from the line store, never from media.
// - A programming never overlaps another one or a read of its device.
// - `idle` only when no page has a line that is not on media, and no slot is used.

`include "psm_parameters.svh"

module psm_channel #(
    parameter SUB_BITS = `PSM_SUB_BITS,
    parameter LINE_BITS = `PSM_PAGE_LINE_BITS,
    parameter PAGE_BITS = 8,
    parameter SLOT_BITS = 2,
    parameter ENTRY_BITS = 4,
    parameter ID = 6,
    parameter T = `PSM_TIME_BITS,
    parameter AGE_BITS = 16,
    parameter GROUPS = `PSM_GROUPS,
    parameter CHANNELS = `PSM_CHANNELS,
    parameter READ = `PSM_READ,
    parameter PROGRAM = `PSM_PROGRAM,
    parameter ROW_BUFFER = `PSM_ROW_BUFFER,
    parameter XCC = `PSM_XCC,
    parameter BURST = `PSM_BURST,
    parameter BACK = `PSM_BACK,
    parameter LAG = 4,
    parameter SUBS = 1 << SUB_BITS,
    parameter ROW = PAGE_BITS + LINE_BITS,
    parameter BANK_BITS = SLOT_BITS + 1,
    parameter STORE = SUB_BITS + BANK_BITS + LINE_BITS
) (
    input clk,
    input rst,
    input [2:0] number,
    input [T-1:0] now,
    // An operation; `op_take`: it is done, its answer is there in the next cycle.
    input op_valid,
    input [2:0] op_kind,
    input [SUB_BITS-1:0] op_sub,
    input [ROW-1:0] op_row,
    input [T-1:0] op_time,
    input [ID-1:0] op_id,
    input [511:0] op_data,
    input op_has,
    input op_poison,
    input [2:0] op_copy,
    output op_take,
    output reg [T-1:0] answer_time,
    output reg answer_local,
    output reg [STORE+SLOT_BITS-1:0] answer_place,
    output [512:0] answer_line,
    // Lines copied by wear levelling: out of this channel, and into it.
    output copied_valid,
    output [2:0] copied_copy,
    output [512:0] copied_line,
    input copied_take,
    input fill_valid,
    input [STORE+SLOT_BITS-1:0] fill_place,
    input [512:0] fill_line,
    output fill_take,
    // The flush port.
    input flush_go,
    input [T-1:0] flush_time,
    output flush_busy,
    output reg [T-1:0] busy_until,
    output idle,
    // Answers to the host.
    output reg read_valid,
    output reg [ID-1:0] read_id,
    output [511:0] read_data,
    output read_contained,
    output reg write_valid,
    output reg [ID-1:0] write_id,
    // Devices.
    output reg [SUBS*3-1:0] sense_go,
    output reg [SUBS*3*ROW-1:0] sense_row,
    output reg fetch_go,
    output reg [SUB_BITS-1:0] fetch_sub,
    input [887:0] fetch_data,
    output reg [SUBS*3-1:0] program_go,
    output reg [SUBS*3*ROW-1:0] program_row,
    output reg age_go,
    output reg [SUB_BITS-1:0] age_sub,
    output reg [ROW-1:0] age_row,
    input [23:0] age_data,
    output reg load_go,
    output reg [SUB_BITS-1:0] load_sub,
    output reg [1:0] load_piece,
    output reg [295:0] load_data,
    // Counters.
    output reg [31:0] rebuilt,
    output reg [31:0] repaired,
    output reg [31:0] late
);
  // One piece of code for all channels, when Verilator makes a program.
  /* verilator no_inline_module */
  `include "psm_xcc.svh"

  localparam SLOTS = 1 << SLOT_BITS;
  localparam ENTRIES = 1 << ENTRY_BITS;
  localparam LINES = 1 << LINE_BITS;
  localparam OP_READ = 0, OP_WRITE = 1, OP_COPY = 2, OP_PROGRAM = 3;

  // Later or at the same time; times differ by less than half of their range.
  function reached(input [T-1:0] a, input [T-1:0] b);
    reg [T-1:0] by;
    begin
      by = a - b;
      reached = !by[T-1];
    end
  endfunction
  function [T-1:0] later(input [T-1:0] a, input [T-1:0] b);
    later = reached(a, b) ? a : b;
  endfunction
  function [63:0] place_of(input [SUB_BITS-1:0] sub, input [ROW-1:0] row);
    place_of = row * GROUPS + sub * CHANNELS + number;
  endfunction

  // Groups.
  reg open_valid[0:SUBS-1];
  reg [PAGE_BITS-1:0] open_page[0:SUBS-1];
  reg [LINES-1:0] open_dirty[0:SUBS-1];
  reg [BANK_BITS-1:0] open_bank[0:SUBS-1];
  reg [T-1:0] buffer_free[0:SUBS-1];
  reg [T-1:0] reads_0[0:SUBS-1], reads_1[0:SUBS-1], reads_2[0:SUBS-1];
  reg [T-1:0] programmed[0:SUBS-1];
  reg [T-1:0] bus_free;
  // Their slots: a ring each.
  reg [SLOT_BITS-1:0] slot_head[0:SUBS-1];
  reg [SLOT_BITS:0] slot_count[0:SUBS-1];
  reg [T-1:0] start_0[0:SUBS*SLOTS-1], start_1[0:SUBS*SLOTS-1], start_2[0:SUBS*SLOTS-1];
  reg [T-1:0] end_0[0:SUBS*SLOTS-1], end_1[0:SUBS*SLOTS-1], end_2[0:SUBS*SLOTS-1];
  reg [T-1:0] over[0:SUBS*SLOTS-1];
  reg [PAGE_BITS-1:0] slot_page[0:SUBS*SLOTS-1];
  reg [LINES-1:0] slot_dirty[0:SUBS*SLOTS-1];
  reg [BANK_BITS-1:0] slot_bank[0:SUBS*SLOTS-1];
  reg slot_pending[0:SUBS*SLOTS-1];
  // Lines of open pages and slots; the upper bit: there is no line (contained).
  reg [512:0] store[0:(1<<STORE)-1];
  reg [512:0] store_line;
  assign answer_line = store_line;

  // Requests under way.
  reg entry_valid[0:ENTRIES-1];
  reg entry_write[0:ENTRIES-1];
  reg entry_hit[0:ENTRIES-1];
  reg [ID-1:0] entry_id[0:ENTRIES-1];
  reg [1:0] entry_state[0:ENTRIES-1];
  reg [T-1:0] entry_start[0:ENTRIES-1];
  reg [T-1:0] entry_due[0:ENTRIES-1];
  reg [SUB_BITS-1:0] entry_sub[0:ENTRIES-1];
  reg [ROW-1:0] entry_row[0:ENTRIES-1];
  reg [2:0] entry_pieces[0:ENTRIES-1];
  localparam WAITS = 0, SENSES = 1, FETCHED = 2, READY = 3;
  reg [512:0] hit_lines[0:ENTRIES-1];
  reg [512:0] array_lines[0:ENTRIES-1];

  // One copy of wear levelling from the array, and one read of all pieces again.
  reg copy_busy;
  reg [2:0] copy_number;
  reg [SUB_BITS-1:0] copy_sub;
  reg [ROW-1:0] copy_row;
  reg [T-1:0] copy_start_0, copy_start_1;
  reg [1:0] copy_issued, copy_fetched;
  reg copy_solved;
  reg [295:0] copy_piece_0, copy_piece_1;
  reg copy_done;
  reg [512:0] copy_line;
  assign copied_valid = copy_done;
  assign copied_copy  = copy_number;
  assign copied_line  = copy_line;

  reg again_busy, again_booked, again_issued, again_fetched, again_copy;
  reg [ENTRY_BITS-1:0] again_entry;
  reg [SUB_BITS-1:0] again_sub;
  reg [ROW-1:0] again_row;
  reg [T-1:0] again_start;

  // The flush port's walk over the groups.
  reg flushing;
  reg [SUB_BITS-1:0] flush_sub;
  reg [T-1:0] flush_at;
  assign flush_busy = flushing;

  // Times that are long past would come back as the future: each is looked at once in a while.
  wire age_now = now[AGE_BITS-1:SUB_BITS] == 0;
  wire [SUB_BITS-1:0] age_which = now[SUB_BITS-1:0];

  // ---- Booking -------------------------------------------------------------------------------

  wire again_wants = again_busy && !again_booked && !op_valid && !flushing;
  wire [SUB_BITS-1:0] sub = flushing ? flush_sub : again_wants ? again_sub : op_sub;
  wire [PAGE_BITS-1:0] page = op_row[ROW-1:LINE_BITS];
  wire [LINE_BITS-1:0] bit_number = op_row[LINE_BITS-1:0];
  wire [LINES-1:0] bit_mask = 1 << bit_number;
  wire [T-1:0] at = flushing ? flush_at : again_wants ? now + 8 : op_time;

  wire is_open = open_valid[sub] && open_page[sub] == page;
  wire hits_open = is_open && (open_dirty[sub] & bit_mask) != 0;
  wire full = slot_count[sub] == SLOTS;
  wire [SLOT_BITS-1:0] slot_next = slot_head[sub] + slot_count[sub][SLOT_BITS-1:0];
  wire [SUB_BITS+SLOT_BITS-1:0] slot_new = {sub, slot_next};

  // When a device can begin a read: between the programmings that are booked.
  reg [T-1:0] ready_0, ready_1, ready_2;
  reg [SUB_BITS+SLOT_BITS-1:0] look, latch;
  reg [SLOT_BITS-1:0] look_slot;
  reg past_0, past_1, past_2, latched, latched_now;
  integer k;
  always @* begin
    ready_0 = later(at, reads_0[sub]);
    ready_1 = later(at, reads_1[sub]);
    ready_2 = later(at, reads_2[sub]);
    past_0 = 0;
    past_1 = 0;
    past_2 = 0;
    latched = 0;
    latched_now = 0;
    latch = 0;
    look = 0;
    look_slot = 0;
    for (k = 0; k < SLOTS; k = k + 1) begin
      look_slot = slot_head[sub] + k[SLOT_BITS-1:0];
      look = {sub, look_slot};
      if (k < slot_count[sub]) begin
        if (!past_0 && !reached(ready_0, end_0[look])) begin
          if (reached(start_0[look], ready_0 + READ)) past_0 = 1;
          else ready_0 = end_0[look];
        end
        if (!past_1 && !reached(ready_1, end_1[look])) begin
          if (reached(start_1[look], ready_1 + READ)) past_1 = 1;
          else ready_1 = end_1[look];
        end
        if (!past_2 && !reached(ready_2, end_2[look])) begin
          if (reached(start_2[look], ready_2 + READ)) past_2 = 1;
          else ready_2 = end_2[look];
        end
        // A copy takes the line as it is now; a read as it is when it begins.
        if (slot_page[look] == page && (slot_dirty[look] & bit_mask) != 0) begin
          latched_now = 1;
          if (!reached(at, over[look]) || op_kind == OP_COPY) begin
            latched = 1;
            latch = look;
          end
        end
      end
    end
  end

  // Two of the three that are free first: a busy half is rebuilt from the other and the code.
  wire half_first = reached(ready_1, ready_0);
  wire [T-1:0] half_late = half_first ? ready_1 : ready_0;
  wire [T-1:0] half_early = half_first ? ready_0 : ready_1;
  wire rebuild = half_late != at && !reached(ready_2, half_late);
  wire [T-1:0] array_first = rebuild ? later(half_early, ready_2) : half_late;
  wire [2:0] array_pieces = !rebuild ? 3'b011 : half_first ? 3'b101 : 3'b110;

  // When all of some pieces can be read: at the moment at which one is ready another may be about to
  // be programmed. A slot's programming moves it at most once for each piece, so that three looks are enough.
  wire [2:0] together = again_wants ? 3'b111 : array_pieces;
  reg [T-1:0] array_start;
  reg [SUB_BITS+SLOT_BITS-1:0] scan;
  reg [SLOT_BITS-1:0] scan_slot;
  integer t, u;
  always @* begin
    array_start = again_wants ? later(later(ready_0, ready_1), ready_2) : array_first;
    scan = 0;
    scan_slot = 0;
    for (t = 0; t < SLOTS; t = t + 1) begin
      scan_slot = slot_head[sub] + t[SLOT_BITS-1:0];
      scan = {sub, scan_slot};
      if (t < slot_count[sub])
        for (u = 0; u < 3; u = u + 1) begin
          if (together[0] && !reached(array_start, end_0[scan])
              && !reached(start_0[scan], array_start + READ)) array_start = end_0[scan];
          if (together[1] && !reached(array_start, end_1[scan])
              && !reached(start_1[scan], array_start + READ)) array_start = end_1[scan];
          if (together[2] && !reached(array_start, end_2[scan])
              && !reached(start_2[scan], array_start + READ)) array_start = end_2[scan];
        end
    end
  end

  // The channel's wires, which are booked when a request comes.
  wire [T-1:0] bus = later(bus_free, at);
  wire [T-1:0] arrived = bus + BURST;

  // A programming: of the open page, or of one line.
  wire evict_op = op_kind == OP_WRITE && !is_open && open_dirty[sub] != 0;
  wire [LINES-1:0] what = flushing || op_kind == OP_WRITE ? open_dirty[sub] : bit_mask;
  reg [LINE_BITS:0] lines;
  integer n;
  always @* begin
    lines = 0;
    for (n = 0; n < LINES; n = n + 1) lines = lines + what[n];
  end
  wire [T-1:0] busy = lines * PROGRAM;
  wire [T-1:0] begin_at = flushing ? later(flush_at, buffer_free[sub])
      : op_kind == OP_WRITE ? later(arrived, buffer_free[sub]) : op_time;
  wire alone = reached(begin_at, programmed[sub]);
  wire [T-1:0] first = later(begin_at, programmed[sub]);
  wire [T-1:0] new_start_0 = later(first, reads_0[sub]);
  wire [T-1:0] new_end_0 = new_start_0 + busy;
  wire [T-1:0] new_start_1 = later(alone ? new_end_0 : first, reads_1[sub]);
  wire [T-1:0] new_end_1 = new_start_1 + busy;
  wire [T-1:0] new_start_2 = later(alone ? new_end_1 : first, reads_2[sub]);
  wire [T-1:0] new_end_2 = new_start_2 + busy;
  wire [T-1:0] new_over = later(later(new_end_0, new_end_1), new_end_2);

  wire [T-1:0] buffered = !evict_op ? begin_at : lines == 1 ? new_start_0 : new_over - PROGRAM;
  wire [T-1:0] accepted = buffered + ROW_BUFFER;

  wire [T-1:0] read_start = hits_open ? later(at, buffer_free[sub]) : latched ? at : array_start;
  wire from_store = hits_open || latched;
  wire [T-1:0] read_ready = read_start + (from_store ? ROW_BUFFER : READ) + XCC;
  wire [T-1:0] read_due = later(read_ready, bus) + BURST + BACK;
  wire [BANK_BITS-1:0] line_bank = hits_open ? open_bank[sub] : slot_bank[latch];

  reg [ENTRY_BITS-1:0] entry_new;
  reg entry_free;
  integer e;
  always @* begin
    entry_new  = 0;
    entry_free = 0;
    for (e = 0; e < ENTRIES; e = e + 1)
      if (!entry_valid[e]) begin
        entry_new  = e[ENTRY_BITS-1:0];
        entry_free = 1;
      end
  end

  wire missing = latched && !hits_open && slot_pending[latch];
  reg can;
  always @* begin
    case (op_kind)
      OP_READ: can = entry_free && !missing;
      OP_WRITE: can = entry_free && !(evict_op && full);
      OP_COPY: can = !copy_busy && !missing;
      default: can = !full;
    endcase
  end
  assign op_take = op_valid && can && !flushing && !age_now;
  wire take_read = op_take && op_kind == OP_READ;
  wire take_write = op_take && op_kind == OP_WRITE;
  wire take_copy = op_take && op_kind == OP_COPY;
  wire take_program = op_take && op_kind == OP_PROGRAM;
  wire flush_step = flushing && !age_now && !(open_dirty[flush_sub] != 0 && full);
  wire evicts = (take_write && evict_op) || (flush_step && open_dirty[flush_sub] != 0);
  wire books = evicts || take_program;

  // ---- The line store's ports ----------------------------------------------------------------

  wire [BANK_BITS-1:0] write_bank = evict_op ? slot_bank[slot_new] : open_bank[sub];
  wire store_write = take_write || (take_program && op_has);
  assign fill_take = fill_valid && !store_write;
  wire [SLOT_BITS-1:0] fill_slot = fill_place[SLOT_BITS-1:0];
  wire [STORE-1:0] fill_store = fill_place[STORE+SLOT_BITS-1:SLOT_BITS];
  wire [STORE-1:0] store_to = take_write ? {sub, write_bank, bit_number}
      : take_program ? {sub, slot_bank[slot_new], bit_number} : fill_store;
  wire sched_reads = (take_read && from_store) || (take_copy && from_store);

  // ---- Sequencers: what is booked begins -----------------------------------------------------

  reg active[0:SUBS-1];
  reg [LINES-1:0] sensed[0:SUBS-1];
  reg [LINES-1:0] left[0:SUBS*3-1];
  reg [T-1:0] next_at[0:SUBS*3-1];
  reg [SUBS*3-1:0] wants;
  reg [LINE_BITS-1:0] wants_line[0:SUBS*3-1];
  reg [7:0] ages[0:SUBS*LINES-1];

  function [LINE_BITS-1:0] lowest(input [LINES-1:0] mask);
    integer i;
    begin
      lowest = 0;
      for (i = LINES - 1; i >= 0; i = i - 1) if (mask[i]) lowest = i[LINE_BITS-1:0];
    end
  endfunction

  // The encoder takes one piece a cycle, when the store's port is free.
  reg encode;
  reg [SUB_BITS-1:0] encode_sub;
  reg [1:0] encode_piece;
  integer s, p;
  always @* begin
    encode = 0;
    encode_sub = 0;
    encode_piece = 0;
    for (s = 0; s < SUBS; s = s + 1)
      for (p = 0; p < 3; p = p + 1)
        if (wants[s*3+p] && !slot_pending[{s[SUB_BITS-1:0], slot_head[s]}]) begin
          encode = !sched_reads;
          encode_sub = s[SUB_BITS-1:0];
          encode_piece = p[1:0];
        end
  end
  wire [SUB_BITS+SLOT_BITS-1:0] encode_slot = {encode_sub, slot_head[encode_sub]};
  wire [LINE_BITS-1:0] encode_line = wants_line[encode_sub*3+encode_piece];

  reg e1_valid, e2_valid;
  reg [SUB_BITS-1:0] e1_sub, e2_sub;
  reg [1:0] e1_piece, e2_piece;
  reg [ROW-1:0] e1_row, e2_row;
  reg [512:0] e2_line;
  reg [23:0] e2_ages;

  // ---- Fetching what devices have sensed, and checking it ------------------------------------

  localparam FOR_ENTRY = 0, FOR_COPY_0 = 1, FOR_COPY_1 = 2, FOR_AGAIN = 3;
  reg f1_valid, f2_valid;
  reg [1:0] f1_for, f2_for;
  reg [ENTRY_BITS-1:0] f1_entry, f2_entry;
  reg [2:0] f2_pieces;
  reg [ROW-1:0] f2_row;
  reg [SUB_BITS-1:0] f2_sub;
  reg [887:0] f2_data;
  reg solve_copy;

  reg fetch;
  reg [1:0] fetch_for;
  reg [ENTRY_BITS-1:0] fetch_entry;
  integer f;
  always @* begin
    fetch = 0;
    fetch_for = FOR_ENTRY;
    fetch_entry = 0;
    for (f = 0; f < ENTRIES; f = f + 1)
      if (entry_valid[f] && entry_state[f] == SENSES
          && reached(now, entry_start[f] + (READ + LAG))) begin
        fetch = 1;
        fetch_entry = f[ENTRY_BITS-1:0];
      end
    if (again_issued && !again_fetched && reached(now, again_start + (READ + LAG))) begin
      fetch = 1;
      fetch_for = FOR_AGAIN;
    end
    if (copy_issued[1] && !copy_fetched[1] && reached(now, copy_start_1 + (READ + LAG))) begin
      fetch = 1;
      fetch_for = FOR_COPY_1;
    end
    if (copy_issued[0] && !copy_fetched[0] && reached(now, copy_start_0 + (READ + LAG))) begin
      fetch = 1;
      fetch_for = FOR_COPY_0;
    end
  end

  // ---- Answers: one read and one write a cycle ------------------------------------------------

  reg answers_read, answers_write;
  reg [ENTRY_BITS-1:0] answer_r, answer_w, look_entry;
  integer a;
  always @* begin
    answers_read = 0;
    answers_write = 0;
    answer_r = 0;
    answer_w = 0;
    look_entry = 0;
    for (a = 0; a < ENTRIES; a = a + 1) begin
      look_entry = now[ENTRY_BITS-1:0] + a[ENTRY_BITS-1:0];
      if (entry_valid[look_entry] && reached(now, entry_due[look_entry] - 1)) begin
        if (entry_write[look_entry]) begin
          answers_write = 1;
          answer_w = look_entry;
        end else if (entry_state[look_entry] == READY) begin
          answers_read = 1;
          answer_r = look_entry;
        end
      end
    end
  end
  reg read_from_hit;
  reg [512:0] read_hit, read_array;
  wire [512:0] read_line = read_from_hit ? read_hit : read_array;
  assign read_data = read_line[511:0];
  assign read_contained = read_line[512];

  reg any_dirty;
  integer q;
  always @* begin
    any_dirty = 0;
    for (q = 0; q < SUBS; q = q + 1)
      if (open_dirty[q] != 0 || slot_count[q] != 0) any_dirty = 1;
  end
  assign idle = !any_dirty && !flushing;

  // The decoder's answer to two pieces, or to all three.
  reg [31:0] check_0, check_1, check_2;
  reg good_0, good_1, good_2, solved, contained;
  reg [255:0] half_a, half_b;
  reg [7:0] age_0, age_1, age_2;
  reg same_01, same_02, same_12;
  reg [63:0] place;

  reg hit_valid;
  reg [ENTRY_BITS-1:0] hit_entry;
  reg [SUB_BITS+SLOT_BITS-1:0] head;
  reg [7:0] age;
  reg [255:0] encoded;
  reg [31:0] encoded_check;
  reg [SUBS-1:0] retires;
  integer i, j;

  always @(posedge clk) begin
    read_valid <= 0;
    write_valid <= 0;
    sense_go <= 0;
    program_go <= 0;
    age_go <= 0;
    load_go <= 0;
    fetch_go <= 0;
    e1_valid <= 0;
    e2_valid <= 0;
    f1_valid <= 0;
    f2_valid <= 0;
    hit_valid <= 0;
    solve_copy <= 0;

    // What is booked begins, LAG cycles after its moment.
    for (i = 0; i < SUBS; i = i + 1) begin
      head = {i[SUB_BITS-1:0], slot_head[i]};
      retires[i] = 0;
      if (slot_count[i] != 0) begin
        if (!active[i]) begin
          active[i] <= 1;
          sensed[i] <= 0;
          left[i*3] <= slot_dirty[head];
          left[i*3+1] <= slot_dirty[head];
          left[i*3+2] <= slot_dirty[head];
          next_at[i*3] <= start_0[head] + LAG;
          next_at[i*3+1] <= start_1[head] + LAG;
          next_at[i*3+2] <= start_2[head] + LAG;
        end else if (left[i*3] == 0 && left[i*3+1] == 0 && left[i*3+2] == 0
            && wants[i*3+:3] == 0 && reached(now, over[head])) begin
          active[i] <= 0;
          retires[i] = 1;
          slot_head[i] <= slot_head[i] + 1'b1;
        end
      end
      for (j = 0; j < 3; j = j + 1) begin
        if (active[i] && left[i*3+j] != 0 && reached(now, next_at[i*3+j])) begin
          left[i*3+j] <= left[i*3+j] & (left[i*3+j] - 1'b1);
          next_at[i*3+j] <= next_at[i*3+j] + PROGRAM;
          wants[i*3+j] <= 1;
          wants_line[i*3+j] <= lowest(left[i*3+j]);
          program_go[i*3+j] <= 1;
          program_row[(i*3+j)*ROW+:ROW] <= {slot_page[head], lowest(left[i*3+j])};
        end
      end
    end
    for (i = 0; i < ENTRIES; i = i + 1)
      if (entry_valid[i] && entry_state[i] == WAITS && reached(now, entry_start[i] + LAG)) begin
        entry_state[i] <= SENSES;
        for (j = 0; j < 3; j = j + 1)
          if (entry_pieces[i][j]) begin
            sense_go[entry_sub[i]*3+j] <= 1;
            sense_row[(entry_sub[i]*3+j)*ROW+:ROW] <= entry_row[i];
          end
      end
    if (copy_busy && !copy_solved) begin
      if (!copy_issued[0] && reached(now, copy_start_0 + LAG)) begin
        copy_issued[0] <= 1;
        sense_go[copy_sub*3] <= 1;
        sense_row[(copy_sub*3)*ROW+:ROW] <= copy_row;
      end
      if (!copy_issued[1] && reached(now, copy_start_1 + LAG)) begin
        copy_issued[1] <= 1;
        sense_go[copy_sub*3+1] <= 1;
        sense_row[(copy_sub*3+1)*ROW+:ROW] <= copy_row;
      end
      if (copy_fetched == 2'b11) begin
        copy_solved <= 1;
        solve_copy  <= 1;
      end
    end
    if (again_booked && !again_issued && reached(now, again_start + LAG)) begin
      again_issued <= 1;
      for (j = 0; j < 3; j = j + 1) begin
        sense_go[again_sub*3+j] <= 1;
        sense_row[(again_sub*3+j)*ROW+:ROW] <= again_row;
      end
    end

    // Encode: the line and the ages of its pieces, then the piece.
    if (encode) begin
      wants[encode_sub*3+encode_piece] <= 0;
      e1_valid <= 1;
      e1_sub <= encode_sub;
      e1_piece <= encode_piece;
      e1_row <= {slot_page[encode_slot], encode_line};
      age_go <= 1;
      age_sub <= encode_sub;
      age_row <= {slot_page[encode_slot], encode_line};
    end
    if (e1_valid) begin
      e2_valid <= 1;
      e2_sub <= e1_sub;
      e2_piece <= e1_piece;
      e2_row <= e1_row;
      e2_line <= store_line;
      e2_ages <= age_data;
    end
    if (e2_valid) begin
      if (sensed[e2_sub][e2_row[LINE_BITS-1:0]]) age = ages[{e2_sub, e2_row[LINE_BITS-1:0]}];
      else begin
        age = newest(e2_ages) + 1'b1;
        ages[{e2_sub, e2_row[LINE_BITS-1:0]}] <= age;
        sensed[e2_sub][e2_row[LINE_BITS-1:0]] <= 1;
      end
      encoded = e2_piece == 0 ? e2_line[255:0] : e2_piece == 1 ? e2_line[511:256]
          : e2_line[255:0] ^ e2_line[511:256];
      encoded_check = piece_check(encoded, age, e2_piece, place_of(e2_sub, e2_row));
      load_go <= 1;
      load_sub <= e2_sub;
      load_piece <= e2_piece;
      load_data <= {e2_line[512] ? ~encoded_check : encoded_check, age, encoded};
    end

    // Fetch, then decode.
    if (fetch) begin
      f1_valid <= 1;
      f1_for <= fetch_for;
      f1_entry <= fetch_entry;
      fetch_go <= 1;
      fetch_sub <= fetch_for == FOR_ENTRY ? entry_sub[fetch_entry]
          : fetch_for == FOR_AGAIN ? again_sub : copy_sub;
      case (fetch_for)
        FOR_ENTRY: entry_state[fetch_entry] <= FETCHED;
        FOR_COPY_0: copy_fetched[0] <= 1;
        FOR_COPY_1: copy_fetched[1] <= 1;
        default: again_fetched <= 1;
      endcase
    end
    if (f1_valid) begin
      case (f1_for)
        FOR_COPY_0: copy_piece_0 <= fetch_data[295:0];
        FOR_COPY_1: copy_piece_1 <= fetch_data[591:296];
        default: begin
          f2_valid <= 1;
          f2_for <= f1_for;
          f2_entry <= f1_entry;
          f2_pieces <= f1_for == FOR_AGAIN ? 3'b111 : entry_pieces[f1_entry];
          f2_row <= f1_for == FOR_AGAIN ? again_row : entry_row[f1_entry];
          f2_sub <= f1_for == FOR_AGAIN ? again_sub : entry_sub[f1_entry];
          f2_data <= fetch_data;
        end
      endcase
    end else if (solve_copy) begin
      f2_valid <= 1;
      f2_for <= FOR_COPY_0;
      f2_pieces <= 3'b011;
      f2_row <= copy_row;
      f2_sub <= copy_sub;
      f2_data <= {296'b0, copy_piece_1, copy_piece_0};
    end else if (copy_busy && copy_solved && !copy_done && !f2_valid && !again_busy) begin
      solve_copy <= 1;  // the decoder was busy
    end
    if (f2_valid) begin
      place = place_of(f2_sub, f2_row);
      age_0 = f2_data[263:256];
      age_1 = f2_data[559:552];
      age_2 = f2_data[855:848];
      check_0 = piece_check(f2_data[255:0], age_0, 2'd0, place);
      check_1 = piece_check(f2_data[551:296], age_1, 2'd1, place);
      check_2 = piece_check(f2_data[847:592], age_2, 2'd2, place);
      good_0 = f2_pieces[0] && check_0 == f2_data[295:264];
      good_1 = f2_pieces[1] && check_1 == f2_data[591:560];
      good_2 = f2_pieces[2] && check_2 == f2_data[887:856];
      same_01 = good_0 && good_1 && age_0 == age_1;
      same_02 = good_0 && good_2 && age_0 == age_2;
      same_12 = good_1 && good_2 && age_1 == age_2;
      half_a = same_01 || same_02 ? f2_data[255:0] : f2_data[551:296] ^ f2_data[847:592];
      half_b = same_01 || same_12 ? f2_data[551:296] : f2_data[255:0] ^ f2_data[847:592];
      solved = same_01 || same_02 || same_12;
      contained = !solved;
      if (same_01 && same_02) contained = (half_a ^ half_b) != f2_data[847:592];
      else if (same_01) contained = good_2 && newer(age_2, age_0);
      else if (same_02) contained = good_1 && newer(age_1, age_0);
      else if (same_12) contained = good_0 && newer(age_0, age_1);
      if (solved || f2_for == FOR_AGAIN) begin
        if (f2_for == FOR_COPY_0 || (f2_for == FOR_AGAIN && again_copy)) begin
          copy_done <= 1;
          copy_line <= {contained, half_b, half_a};
        end else begin
          array_lines[f2_for==FOR_AGAIN?again_entry : f2_entry] <= {contained, half_b, half_a};
          entry_state[f2_for==FOR_AGAIN?again_entry : f2_entry] <= READY;
        end
        if (f2_for == FOR_AGAIN) begin
          again_busy <= 0;
          if (!contained) repaired <= repaired + 1'b1;
          if (!again_copy)
            entry_due[again_entry] <= again_start + (READ + XCC + BURST + BACK);
        end
      end else if (!again_busy) begin
        again_busy <= 1;
        again_booked <= 0;
        again_issued <= 0;
        again_fetched <= 0;
        again_copy <= f2_for == FOR_COPY_0;
        again_entry <= f2_entry;
        again_sub <= f2_sub;
        again_row <= f2_row;
      end else if (f2_for == FOR_ENTRY) entry_state[f2_entry] <= SENSES;
    end
    if (again_wants && !age_now) begin
      again_booked <= 1;
      again_start <= array_start;
      reads_0[again_sub] <= array_start + READ;
      reads_1[again_sub] <= array_start + READ;
      reads_2[again_sub] <= array_start + READ;
    end
    if (copied_valid && copied_take) begin
      copy_busy <= 0;
      copy_done <= 0;
    end

    // Booking.
    if (take_read) begin
      entry_valid[entry_new] <= 1;
      entry_write[entry_new] <= 0;
      entry_id[entry_new] <= op_id;
      entry_hit[entry_new] <= from_store;
      entry_state[entry_new] <= from_store ? READY : WAITS;
      entry_start[entry_new] <= array_start;
      entry_pieces[entry_new] <= array_pieces;
      entry_due[entry_new] <= read_due;
      entry_sub[entry_new] <= sub;
      entry_row[entry_new] <= op_row;
      bus_free <= bus + BURST;
      hit_valid <= from_store;
      hit_entry <= entry_new;
      if (!from_store) begin
        if (array_pieces[0]) reads_0[sub] <= array_start + READ;
        if (array_pieces[1]) reads_1[sub] <= array_start + READ;
        if (array_pieces[2]) reads_2[sub] <= array_start + READ;
        if (rebuild) rebuilt <= rebuilt + 1'b1;
      end
    end
    if (hit_valid) hit_lines[hit_entry] <= store_line;
    if (take_write) begin
      entry_valid[entry_new] <= 1;
      entry_write[entry_new] <= 1;
      entry_id[entry_new] <= op_id;
      entry_state[entry_new] <= READY;
      entry_due[entry_new] <= accepted + BACK;
      bus_free <= bus + BURST;
      open_valid[sub] <= 1;
      open_page[sub] <= page;
      open_dirty[sub] <= evict_op ? bit_mask : open_dirty[sub] | bit_mask;
      buffer_free[sub] <= accepted;
      answer_time <= accepted;
    end
    if (take_copy) begin
      // It reads halves, each when it can.
      reads_0[sub] <= ready_0 + READ;
      reads_1[sub] <= ready_1 + READ;
      answer_time <= later(ready_0, ready_1) + READ;
      answer_local <= from_store;
      if (is_open) open_dirty[sub] <= open_dirty[sub] & ~bit_mask;
      if (!from_store) begin
        copy_busy <= 1;
        copy_number <= op_copy;
        copy_sub <= sub;
        copy_row <= op_row;
        copy_start_0 <= ready_0;
        copy_start_1 <= ready_1;
        copy_issued <= 0;
        copy_fetched <= 0;
        copy_solved <= 0;
      end
    end
    if (books) begin
      start_0[slot_new] <= new_start_0;
      start_1[slot_new] <= new_start_1;
      start_2[slot_new] <= new_start_2;
      end_0[slot_new] <= new_end_0;
      end_1[slot_new] <= new_end_1;
      end_2[slot_new] <= new_end_2;
      over[slot_new] <= new_over;
      slot_page[slot_new] <= evicts ? open_page[sub] : page;
      slot_dirty[slot_new] <= what;
      slot_pending[slot_new] <= take_program && !op_has;
      programmed[sub] <= new_over;
      if (evicts) begin
        slot_bank[slot_new] <= open_bank[sub];
        open_bank[sub] <= slot_bank[slot_new];
      end
    end
    if (take_program) begin
      answer_time  <= new_over;
      answer_place <= {sub, slot_bank[slot_new], bit_number, slot_next};
    end
    for (i = 0; i < SUBS; i = i + 1)
      slot_count[i] <= slot_count[i] + (books && sub == i) - retires[i];
    if (fill_take) slot_pending[{fill_store[STORE-1-:SUB_BITS], fill_slot}] <= 0;
    if (store_write || fill_take)
      store[store_to] <= take_write ? {1'b0, op_data} : take_program ? {op_poison, op_data}
          : fill_line;
    if (sched_reads) store_line <= store[{sub, line_bank, bit_number}];
    else if (encode) store_line <= store[{encode_sub, slot_bank[encode_slot], encode_line}];

    // The flush port: every open page goes to media.
    if (flush_go) begin
      flushing <= 1;
      flush_sub <= 0;
      flush_at <= flush_time;
    end else if (flush_step) begin
      if (evicts) open_dirty[flush_sub] <= 0;
      flush_sub <= flush_sub + 1'b1;
      if (flush_sub == SUBS - 1) flushing <= 0;
    end
    begin : until_when
      reg [T-1:0] most;
      most = now;
      for (i = 0; i < SUBS; i = i + 1) most = later(most, programmed[i]);
      busy_until <= most;
    end

    // Answers.
    if (answers_read) begin
      read_valid <= 1;
      read_id <= entry_id[answer_r];
      entry_valid[answer_r] <= 0;
      read_from_hit <= entry_hit[answer_r];
      read_hit <= hit_lines[answer_r];
      read_array <= array_lines[answer_r];
    end
    if (answers_write) begin
      write_valid <= 1;
      write_id <= entry_id[answer_w];
      entry_valid[answer_w] <= 0;
    end
    for (i = 0; i < ENTRIES; i = i + 1)
      if (entry_valid[i] && !entry_write[i] && entry_state[i] != READY && now == entry_due[i])
        late <= late + 1'b1;

    if (age_now) begin
      if (!reached(buffer_free[age_which], now)) buffer_free[age_which] <= now;
      if (!reached(reads_0[age_which], now)) reads_0[age_which] <= now;
      if (!reached(reads_1[age_which], now)) reads_1[age_which] <= now;
      if (!reached(reads_2[age_which], now)) reads_2[age_which] <= now;
      if (!reached(programmed[age_which], now)) programmed[age_which] <= now;
      if (!reached(bus_free, now)) bus_free <= now;
    end

    if (rst) begin
      for (i = 0; i < SUBS; i = i + 1) begin
        open_valid[i] <= 0;
        open_dirty[i] <= 0;
        open_bank[i] <= SLOTS;
        buffer_free[i] <= now;
        reads_0[i] <= now;
        reads_1[i] <= now;
        reads_2[i] <= now;
        programmed[i] <= now;
        slot_head[i] <= 0;
        slot_count[i] <= 0;
        active[i] <= 0;
        for (j = 0; j < SLOTS; j = j + 1) begin
          slot_bank[i*SLOTS+j] <= j;
          slot_pending[i*SLOTS+j] <= 0;
        end
        for (j = 0; j < 3; j = j + 1) left[i*3+j] <= 0;
      end
      for (i = 0; i < ENTRIES; i = i + 1) entry_valid[i] <= 0;
      bus_free <= now;
      wants <= 0;
      flushing <= 0;
      copy_busy <= 0;
      copy_done <= 0;
      copy_issued <= 0;
      copy_fetched <= 0;
      again_busy <= 0;
      again_booked <= 0;
      again_issued <= 0;
      again_fetched <= 0;
      rebuilt <= 0;
      repaired <= 0;
      late <= 0;
    end
  end
endmodule
