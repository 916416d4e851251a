// SPDX-License-Identifier: Apache-2.0 OR MIT
// The persistent support module: ports, queues, wear leveler and channels.
//
// A request waits in a queue (psm_queue), is given its place (psm_leveler), and goes to its channel
// (psm_channel), LATENCY cycles after it came if nothing made it wait; the channel counts its times
// from LATENCY cycles before. A write that makes the leveler move lines lets nothing follow until
// the move is booked: read the line, program it at its new place, put a record into the journal,
// then change the registers.
//
// Invariants:
// - Requests reach the channels in the order in which they leave the queue.
// - The map changes only after the record of the change is booked, and nothing is on its way then.
// - `flush_done` and `power_safe` only when every line that was accepted is on media.

`include "psm_parameters.svh"

module psm #(
    parameter BITS = 12,
    parameter ID = 6,
    parameter T = `PSM_TIME_BITS,
    parameter CHANNELS = `PSM_CHANNELS,
    parameter SUB_BITS = `PSM_SUB_BITS,
    parameter LINE_BITS = `PSM_PAGE_LINE_BITS,
    parameter JOURNAL_BITS = BITS > 11 ? BITS - 5 : 6,
    // Rows of a group, those of journal and spare lines included.
    parameter ROW = BITS - 4,
    parameter SUBS = 1 << SUB_BITS
) (
    input clk,
    input rst,
    // Chosen at a reset: the randomizer, writes between two moves of the gap and two exchanges.
    input [63:0] seed,
    input [31:0] gap_every,
    input [31:0] swap_every,
    output ready,
    // Requests.
    input read_valid,
    output read_ready,
    input [ID-1:0] read_id,
    input [BITS-1:0] read_line,
    input write_valid,
    output write_ready,
    input [ID-1:0] write_id,
    input [BITS-1:0] write_line,
    input [511:0] write_data,
    input flush_request,
    output reg flush_done,
    input reset_request,
    output reg reset_done,
    input power_fail,
    output power_safe,
    // Answers, a lane a channel. `contained`: no line, and a machine check.
    output [CHANNELS-1:0] answer_valid,
    output [CHANNELS*ID-1:0] answer_id,
    output [CHANNELS*512-1:0] answer_data,
    output [CHANNELS-1:0] answer_contained,
    output [CHANNELS-1:0] accept_valid,
    output [CHANNELS*ID-1:0] accept_id,
    output reg machine_check,
    // Registers that can be read.
    output reg [63:0] writes,
    output reg [31:0] moves,
    output reg [31:0] swaps,
    output reg [31:0] machine_checks,
    output reg [31:0] journal_next,
    output [BITS-1:0] start,
    output [BITS:0] gap,
    output [BITS-1:0] epoch,
    output [BITS-1:0] pointer,
    output [CHANNELS*32-1:0] rebuilt,
    output [CHANNELS*32-1:0] repaired,
    output [CHANNELS*32-1:0] late,
    output [3:0] state,
    // A request has reached its channel; for measurements.
    output sched_valid,
    output sched_write,
    output [ID-1:0] sched_id,
    output flush_begins,
    // Devices.
    output [CHANNELS*SUBS*3-1:0] sense_go,
    output [CHANNELS*SUBS*3*ROW-1:0] sense_row,
    output [CHANNELS-1:0] fetch_go,
    output [CHANNELS*SUB_BITS-1:0] fetch_sub,
    input [CHANNELS*888-1:0] fetch_data,
    output [CHANNELS*SUBS*3-1:0] program_go,
    output [CHANNELS*SUBS*3*ROW-1:0] program_row,
    output [CHANNELS-1:0] age_go,
    output [CHANNELS*SUB_BITS-1:0] age_sub,
    output [CHANNELS*ROW-1:0] age_row,
    input [CHANNELS*24-1:0] age_data,
    output [CHANNELS-1:0] load_go,
    output [CHANNELS*SUB_BITS-1:0] load_sub,
    output [CHANNELS*2-1:0] load_piece,
    output [CHANNELS*296-1:0] load_data,
    output wipe
);
  localparam LATENCY = 9;
  localparam SLOT_BITS = 3;
  localparam BANK_BITS = SLOT_BITS + 1;
  localparam PLACE = SUB_BITS + BANK_BITS + LINE_BITS + SLOT_BITS;
  localparam CHANNEL_BITS = 3;
  localparam [BITS+1:0] PHYS_LINES = (1 << BITS) + 1;
  localparam [BITS+1:0] JOURNAL_LINES = 1 << JOURNAL_BITS;
  localparam [BITS+1:0] ALL_LINES = PHYS_LINES + 2 * JOURNAL_LINES;
  localparam [31:0] ROWS = (ALL_LINES + `PSM_GROUPS - 1) / `PSM_GROUPS;
  localparam OP_READ = 0, OP_WRITE = 1, OP_COPY = 2, OP_PROGRAM = 3;

  reg [T-1:0] now;

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

  localparam SEED = 0, FIRST = 1, FIRST_WAIT = 2, RUN = 3, DRAIN = 4, COPY = 5, COPY_WAIT = 6,
      COPY_DATA = 7, PUT = 8, PUT_WAIT = 9, NOTE = 10, NOTE_WAIT = 11, FLUSH = 12, FLUSH_WAIT = 13,
      WIPE = 14, SAFE = 15;
  reg [3:0] mode;
  assign state = mode;
  assign ready = mode == RUN;
  assign power_safe = mode == SAFE;
  assign wipe = mode == WIPE;

  // ---- Queue and address stages ----------------------------------------------------------------

  wire out_valid, out_write, queue_empty, queue_reads, queue_writes;
  assign read_ready  = queue_reads && !calls;
  assign write_ready = queue_writes && !calls;
  wire [ID-1:0] out_id;
  wire [BITS-1:0] out_line;
  wire [3:0] out_slot;
  wire out_take;
  wire [511:0] out_data;
  wire op_taken;

  reg [6:0] v, wr;
  reg [ID-1:0] ids[0:6];
  reg [3:0] slots[0:6];
  // The operation at the channels.
  reg op_valid;
  reg [2:0] op_kind;
  reg [CHANNEL_BITS-1:0] op_channel;
  reg [SUB_BITS-1:0] op_sub;
  reg [ROW-1:0] op_row;
  reg [T-1:0] op_time;
  reg [ID-1:0] op_id;
  reg [3:0] op_slot;
  reg op_has, op_poison, op_host;
  reg [2:0] op_copy;
  reg [511:0] op_line;

  wire step = !op_valid || op_taken;
  wire piped = v != 0 || op_valid;
  // Who calls stops what comes; what has come is served first.
  wire calls = (flush_request && !flush_done) || (reset_request && !reset_done) || power_fail;
  wire leveling;
  assign out_take = mode == RUN && step && !leveling;
  wire popped = out_valid && out_take;

  psm_queue #(
      .LINE(BITS),
      .ID(ID)
  ) queue (
      .clk(clk),
      .rst(rst),
      .read_valid(read_valid && !calls),
      .read_ready(queue_reads),
      .read_id(read_id),
      .read_line(read_line),
      .write_valid(write_valid && !calls),
      .write_ready(queue_writes),
      .write_id(write_id),
      .write_line(write_line),
      .write_data(write_data),
      .out_valid(out_valid),
      .out_write(out_write),
      .out_id(out_id),
      .out_line(out_line),
      .out_slot(out_slot),
      .out_take(out_take),
      .data_slot(op_slot),
      .data(out_data),
      .data_release(op_taken && op_host && op_kind == OP_WRITE),
      .empty(queue_empty)
  );

  wire [63:0] multiply_0, multiply_1, add, order;
  wire seed_ready;
  psm_seed randomizer (
      .clk(clk),
      .start(rst),
      .seed(seed),
      .ready(seed_ready),
      .multiply_0(multiply_0),
      .multiply_1(multiply_1),
      .add(add),
      .order(order)
  );

  wire [BITS:0] place, gap_from, gap_to, next_gap, swap_first, swap_second;
  wire [BITS-1:0] next_start, next_epoch, next_pointer;
  wire gap_due, swap_due;
  reg commit_gap, commit_swap;
  psm_leveler #(
      .BITS(BITS)
  ) leveler (
      .clk(clk),
      .rst(rst || wipe),
      .step(step),
      .gap_every(gap_every),
      .swap_every(swap_every),
      .multiply_0(multiply_0),
      .multiply_1(multiply_1),
      .add(add),
      .order(order),
      .line(out_line),
      .place(place),
      .count(popped && out_write),
      .gap_due(gap_due),
      .swap_due(swap_due),
      .gap_from(gap_from),
      .gap_to(gap_to),
      .next_start(next_start),
      .next_gap(next_gap),
      .commit_gap(commit_gap),
      .swap_first(swap_first),
      .swap_second(swap_second),
      .next_epoch(next_epoch),
      .next_pointer(next_pointer),
      .commit_swap(commit_swap),
      .start(start),
      .gap(gap),
      .epoch(epoch),
      .pointer(pointer)
  );
  // A write that makes lines move is the last one for a while.
  reg owes_gap, owes_swap;
  assign leveling = owes_gap || owes_swap;

  // ---- Moves -----------------------------------------------------------------------------------

  reg [1:0] phase;  // of an exchange
  reg moving_gap;
  reg [T-1:0] move_time, map_ready;
  reg [512:0] move_line;
  reg move_local;
  reg [2:0] move_copy;
  reg [7:0] copy_used;
  reg [CHANNEL_BITS+PLACE-1:0] copy_to[0:7];
  reg [2:0] copy_free;
  integer m;
  always @* begin
    copy_free = 0;
    for (m = 0; m < 8; m = m + 1) if (!copy_used[m]) copy_free = m[2:0];
  end

  wire [JOURNAL_BITS-1:0] journal_slot = journal_next[JOURNAL_BITS-1:0];
  wire [BITS+1:0] journal_at = PHYS_LINES + {{(BITS + 2 - JOURNAL_BITS) {1'b0}}, journal_slot};
  wire [BITS+1:0] spare_now = journal_at + JOURNAL_LINES;
  reg [BITS+1:0] spare;
  wire [BITS+1:0] first_place = {1'b0, swap_first}, second_place = {1'b0, swap_second};
  wire [BITS+1:0] move_from = moving_gap ? {1'b0, gap_from}
      : phase == 0 ? first_place : phase == 1 ? second_place : spare;
  wire [BITS+1:0] move_to = moving_gap ? {1'b0, gap_to}
      : phase == 0 ? spare : phase == 1 ? first_place : second_place;

  // A record of the journal, as models/memory/src/oc/journal.rs lays it out.
  wire is_swap = !moving_gap && mode == NOTE;
  wire ends_swap = is_swap && phase == 2;
  wire [31:0] record_start = moving_gap ? next_start : start;
  wire [31:0] record_gap = moving_gap ? next_gap : gap;
  wire [63:0] record_epoch = ends_swap ? next_epoch : epoch;
  wire [63:0] record_pointer = ends_swap ? next_pointer : pointer;
  wire [95:0] record_region = {record_gap, record_start, 32'd0};
  wire [31:0] record_kind = is_swap ? {22'd0, phase, 8'd2} : 32'd1;
  wire [479:0] record_body = {
    seed[63:32],
    record_region,
    is_swap ? 96'd0 : record_region,
    record_kind,
    record_pointer,
    record_epoch,
    32'd0,
    journal_next,
    seed[31:0]
  };
  wire [31:0] record_check = `PSM_JOURNAL_BITS(record_body) ^ `PSM_JOURNAL_ZERO;
  wire [511:0] record = {record_body[479:32], record_check, record_body[31:0]};

  // ---- Places on devices ------------------------------------------------------------------------

  // What goes to the channels next: a request that has its place, or an operation of a move.
  wire copy_goes = mode == COPY && !(&copy_used) && !commit_gap && !commit_swap;
  wire move_goes = (copy_goes || mode == PUT || mode == NOTE || mode == FIRST) && !op_valid;
  wire [BITS+1:0] where = !move_goes ? {1'b0, place} : mode == COPY ? move_from
      : mode == PUT ? move_to : journal_at;
  // Divided by the number of groups, 3 * 2^k: shift, then a third by its reciprocal.
  wire [BITS+1:0] eighth = where >> `PSM_GROUP_SHIFT;
  wire [BITS+2+`PSM_THIRD_SHIFT:0] third = eighth * `PSM_THIRD;
  wire [BITS+1:0] row_wide = third >> `PSM_THIRD_SHIFT;
  wire [BITS+1:0] group_wide = where - row_wide * `PSM_GROUPS;
  wire [4:0] group = group_wide[4:0];
  wire [SUB_BITS-1:0] group_sub = group / CHANNELS;
  wire [4:0] group_channel = group - group_sub * CHANNELS;

  // ---- Channels --------------------------------------------------------------------------------

  wire [CHANNELS-1:0] takes, copied_valid, copied_take, fill_take, flushes, idles;
  wire [CHANNELS*T-1:0] answer_times, busy_untils;
  wire [CHANNELS-1:0] answer_locals;
  wire [CHANNELS*PLACE-1:0] answer_places;
  wire [CHANNELS*513-1:0] answer_lines, copied_lines;
  wire [CHANNELS*3-1:0] copied_copies;
  assign op_taken = op_valid && takes[op_channel];
  assign sched_valid = op_taken && op_host;
  assign sched_write = op_kind == OP_WRITE;
  assign sched_id = op_id;

  // One copied line a cycle goes from the channel that has read it to the one that keeps it, as soon
  // as that one has booked it.
  reg [CHANNEL_BITS-1:0] giver;
  reg gives;
  integer c;
  always @* begin
    giver = 0;
    gives = 0;
    for (c = 0; c < CHANNELS; c = c + 1)
      if (copied_valid[c] && copy_used[copied_copies[c*3+:3]]) begin
        giver = c[CHANNEL_BITS-1:0];
        gives = 1;
      end
  end
  wire [2:0] given_copy = copied_copies[giver*3+:3];
  wire [CHANNEL_BITS-1:0] taker = copy_to[given_copy][CHANNEL_BITS+PLACE-1:PLACE];
  wire given = gives && fill_take[taker];
  assign copied_take = given ? 1 << giver : 0;

  reg  flush_go;
  reg  [T-1:0] flush_time;
  wire starts = rst || wipe;

  genvar g;
  generate
    for (g = 0; g < CHANNELS; g = g + 1) begin : channels
      psm_channel #(
          .SUB_BITS(SUB_BITS),
          .LINE_BITS(LINE_BITS),
          .PAGE_BITS(ROW - LINE_BITS),
          .SLOT_BITS(SLOT_BITS),
          .ID(ID),
          .T(T)
      ) channel (
          .clk(clk),
          .rst(starts),
          .number(g),
          .now(now),
          .op_valid(op_valid && op_channel == g),
          .op_kind(op_kind),
          .op_sub(op_sub),
          .op_row(op_row),
          .op_time(op_host ? now + (`PSM_FRONT - LATENCY) : op_time),
          .op_id(op_id),
          .op_data(op_host ? out_data : op_line),
          .op_has(op_has),
          .op_poison(op_poison),
          .op_copy(op_copy),
          .op_take(takes[g]),
          .answer_time(answer_times[g*T+:T]),
          .answer_local(answer_locals[g]),
          .answer_place(answer_places[g*PLACE+:PLACE]),
          .answer_line(answer_lines[g*513+:513]),
          .copied_valid(copied_valid[g]),
          .copied_copy(copied_copies[g*3+:3]),
          .copied_line(copied_lines[g*513+:513]),
          .copied_take(copied_take[g]),
          .fill_valid(gives && taker == g),
          .fill_place(copy_to[given_copy][PLACE-1:0]),
          .fill_line(copied_lines[giver*513+:513]),
          .fill_take(fill_take[g]),
          .flush_go(flush_go),
          .flush_time(flush_time),
          .flush_busy(flushes[g]),
          .busy_until(busy_untils[g*T+:T]),
          .idle(idles[g]),
          .read_valid(answer_valid[g]),
          .read_id(answer_id[g*ID+:ID]),
          .read_data(answer_data[g*512+:512]),
          .read_contained(answer_contained[g]),
          .write_valid(accept_valid[g]),
          .write_id(accept_id[g*ID+:ID]),
          .sense_go(sense_go[g*SUBS*3+:SUBS*3]),
          .sense_row(sense_row[g*SUBS*3*ROW+:SUBS*3*ROW]),
          .fetch_go(fetch_go[g]),
          .fetch_sub(fetch_sub[g*SUB_BITS+:SUB_BITS]),
          .fetch_data(fetch_data[g*888+:888]),
          .program_go(program_go[g*SUBS*3+:SUBS*3]),
          .program_row(program_row[g*SUBS*3*ROW+:SUBS*3*ROW]),
          .age_go(age_go[g]),
          .age_sub(age_sub[g*SUB_BITS+:SUB_BITS]),
          .age_row(age_row[g*ROW+:ROW]),
          .age_data(age_data[g*24+:24]),
          .load_go(load_go[g]),
          .load_sub(load_sub[g*SUB_BITS+:SUB_BITS]),
          .load_piece(load_piece[g*2+:2]),
          .load_data(load_data[g*296+:296]),
          .rebuilt(rebuilt[g*32+:32]),
          .repaired(repaired[g*32+:32]),
          .late(late[g*32+:32])
      );
    end
  endgenerate

  reg [T-1:0] busy_until;
  always @* begin
    busy_until = busy_untils[0+:T];
    for (c = 1; c < CHANNELS; c = c + 1) busy_until = later(busy_until, busy_untils[c*T+:T]);
  end

  reg [CHANNEL_BITS-1:0] last_channel;
  wire [T-1:0] answer_time = answer_times[last_channel*T+:T];
  reg for_reset, for_power;
  reg [T-1:0] flush_end;
  reg [1:0] settle;
  reg [31:0] wipe_left;
  assign flush_begins = flush_go;

  integer i;
  always @(posedge clk) begin
    now <= now + 1'b1;
    commit_gap <= 0;
    commit_swap <= 0;
    flush_go <= 0;
    flush_done <= 0;
    reset_done <= 0;
    machine_check <= (answer_valid & answer_contained) != 0;
    if ((answer_valid & answer_contained) != 0) machine_checks <= machine_checks + 1'b1;

    if (step) begin
      v  <= {v[5:0], popped};
      wr <= {wr[5:0], out_write};
      ids[0] <= out_id;
      slots[0] <= out_slot;
      for (i = 1; i < 7; i = i + 1) begin
        ids[i] <= ids[i-1];
        slots[i] <= slots[i-1];
      end
      op_valid <= v[6] || move_goes;
      op_host <= !move_goes;
      op_kind <= !move_goes ? (wr[6] ? OP_WRITE : OP_READ) : mode == COPY ? OP_COPY : OP_PROGRAM;
      op_channel <= group_channel[CHANNEL_BITS-1:0];
      op_sub <= group_sub;
      op_row <= row_wide[ROW-1:0];
      op_id <= ids[6];
      op_slot <= slots[6];
      op_time <= mode == FIRST ? now + 16 : move_time;
      op_has <= mode != PUT || move_local;
      op_poison <= mode == PUT && move_line[512];
      op_line <= mode == PUT ? move_line[511:0] : record;
      op_copy <= copy_free;
    end
    if (popped && out_write) begin
      owes_gap  <= gap_due;
      owes_swap <= swap_due;
      writes <= writes + 1'b1;
    end
    if (given) copy_used[given_copy] <= 0;
    if (op_taken) last_channel <= op_channel;

    case (mode)
      SEED: if (seed_ready) mode <= FIRST;
      FIRST: begin
        moving_gap <= 0;
        mode <= FIRST_WAIT;
      end
      FIRST_WAIT:
      if (op_taken) begin
        journal_next <= journal_next + 1'b1;
        settle <= 3;
      end else if (settle != 0) settle <= settle - 1'b1;
      else if (!op_valid && journal_next != 0 && &idles) mode <= RUN;
      RUN:
      if (leveling) begin
        if (op_taken && v == 0) mode <= DRAIN;
      end else if (calls && !piped && queue_empty) begin
        mode <= FLUSH;
        for_reset <= reset_request;
        for_power <= power_fail;
        flush_time <= now + `PSM_FRONT;
        flush_go <= 1;
      end
      // The write that began it has its answer: when it was accepted.
      DRAIN: begin
        move_time <= later(answer_time, map_ready);
        moving_gap <= owes_gap;
        phase <= 0;
        mode <= COPY;
        spare <= spare_now;
      end
      COPY:
      if (copy_goes && !op_valid) begin
        move_copy <= copy_free;
        mode <= COPY_WAIT;
      end
      COPY_WAIT: if (op_taken) mode <= COPY_DATA;
      COPY_DATA: begin
        move_time  <= answer_time;
        move_local <= answer_locals[last_channel];
        move_line  <= answer_lines[last_channel*513+:513];
        mode <= PUT;
      end
      PUT: mode <= PUT_WAIT;
      PUT_WAIT:
      if (op_taken) begin
        settle <= 1;
      end else if (settle != 0) begin
        settle <= 0;
        if (!move_local) begin
          copy_used[move_copy] <= 1;
          copy_to[move_copy] <= {last_channel, answer_places[last_channel*PLACE+:PLACE]};
        end
        move_time <= answer_time;
        mode <= NOTE;
      end
      NOTE: mode <= NOTE_WAIT;
      NOTE_WAIT:
      if (op_taken) begin
        settle <= 1;
        journal_next <= journal_next + 1'b1;
      end else if (settle != 0) begin
        settle <= 0;
        move_time <= answer_time;
        map_ready <= answer_time;
        if (moving_gap) begin
          commit_gap <= 1;
          moves <= moves + 1'b1;
          moving_gap <= 0;
          owes_gap <= 0;
          spare <= spare_now;
        end else if (phase == 2) begin
          commit_swap <= 1;
          swaps <= swaps + 1'b1;
          owes_swap <= 0;
        end
        phase <= moving_gap ? 0 : phase + 1'b1;
        mode <= (moving_gap ? owes_swap : phase != 2) ? COPY : RUN;
      end
      FLUSH: if (!flush_go && flushes == 0) begin
        settle <= 2;
        mode <= FLUSH_WAIT;
      end
      FLUSH_WAIT:
      if (settle != 0) begin
        settle <= settle - 1'b1;
        if (settle == 1) flush_end <= later(later(busy_until, map_ready), flush_time);
      end else if (reached(now, flush_end + (`PSM_BACK - 1))) begin
        if (for_reset) begin
          wipe_left <= ROWS * `PSM_PROGRAM;
          mode <= WIPE;
        end else if (for_power) mode <= SAFE;
        else begin
          flush_done <= 1;
          mode <= RUN;
        end
      end
      WIPE: begin
        wipe_left <= wipe_left - 1'b1;
        journal_next <= 0;
        owes_gap <= 0;
        owes_swap <= 0;
        copy_used <= 0;
        map_ready <= now;
        if (wipe_left == 1) begin
          reset_done <= 1;
          mode <= FIRST;
        end
      end
      default: ;
    endcase
    if (now[15:0] == 0 && !reached(map_ready, now)) map_ready <= now;

    if (rst) begin
      now <= 0;
      mode <= SEED;
      v <= 0;
      op_valid <= 0;
      owes_gap <= 0;
      owes_swap <= 0;
      moving_gap <= 0;
      copy_used <= 0;
      settle <= 0;
      journal_next <= 0;
      writes <= 0;
      moves <= 0;
      swaps <= 0;
      machine_checks <= 0;
      map_ready <= 0;
    end
  end
endmodule
