// SPDX-License-Identifier: Apache-2.0 OR MIT
// Where a line is: randomizer, key of the epoch, Start-Gap; and what moves next.
//
// The registers are those that the paper keeps at a Stop: start, gap, counts of writes, epoch and
// pointer of the reseeding, seed. One region, as in the paper.
//
// The address goes through six stages, one a cycle; `line` is LATENCY cycles before `place`. The
// map may change only while nothing is in the stages; the controller sees to that.
//
// Invariants (formal/leveler.sv): no two lines have one place, none has the gap; a move or an
// exchange changes the places of exactly the lines that it moves.

module psm_leveler #(
    parameter BITS = 12
) (
    input clk,
    input rst,
    input step,
    // Writes between two moves of the gap, and between two exchanges (0: never).
    input [31:0] gap_every,
    input [31:0] swap_every,
    input [63:0] multiply_0,
    input [63:0] multiply_1,
    input [63:0] add,
    input [63:0] order,
    // Address in, place out.
    input [BITS-1:0] line,
    output [BITS:0] place,
    // A write is counted: what has to move.
    input count,
    output gap_due,
    output swap_due,
    // A move of the gap, and its commit.
    output [BITS:0] gap_from,
    output [BITS:0] gap_to,
    output [BITS-1:0] next_start,
    output [BITS:0] next_gap,
    input commit_gap,
    // An exchange, and its commit.
    output [BITS:0] swap_first,
    output [BITS:0] swap_second,
    output [BITS-1:0] next_epoch,
    output [BITS-1:0] next_pointer,
    input commit_swap,
    // Registers.
    output reg [BITS-1:0] start,
    output reg [BITS:0] gap,
    output reg [BITS-1:0] epoch,
    output reg [BITS-1:0] pointer
);
  localparam HALF = (BITS + 1) / 2;
  localparam [BITS:0] LINES = 1 << BITS;

  reg [31:0] gap_writes, swap_writes;
  reg [BITS-1:0] a0, a1, a2, a3, a4, a5;
  reg [BITS:0] a6;
  assign place = a6;

  // Keys of an epoch: a Gray code that begins where the seed says.
  function [BITS-1:0] key_of(input [BITS-1:0] number);
    key_of = swap_every == 0 ? {BITS{1'b0}} : order[32+:BITS] ^ number ^ (number >> 1);
  endfunction
  wire [BITS-1:0] key = key_of(epoch);
  wire [BITS-1:0] delta = key ^ key_of(epoch + 1'b1);

  function [BITS-1:0] exchanged(input [BITS-1:0] x);
    reg [BITS-1:0] other;
    begin
      other = x ^ delta;
      exchanged = (x < other ? x : other) < pointer ? other : x;
    end
  endfunction
  function [BITS:0] place_at(input [BITS-1:0] x);
    reg [BITS-1:0] turned;
    begin
      turned   = x + start;
      place_at = {1'b0, turned} + ({1'b0, turned} >= gap);
    end
  endfunction

  // The smaller member of the next pair, from x on: the upper bit of delta is 0 in it.
  reg [BITS-1:0] upper;
  integer k;
  always @* begin
    upper = 0;
    for (k = 0; k < BITS; k = k + 1) if (delta[k]) upper = 1 << k;
  end
  function [BITS:0] smaller(input [BITS:0] x);
    smaller = (x[BITS-1:0] & upper) != 0 ? (x | {1'b0, upper} | ({1'b0, upper} - 1'b1)) + 1'b1 : x;
  endfunction
  wire [BITS:0] pair = smaller({1'b0, pointer});
  wire [BITS:0] after_pair = smaller(pair + 1'b1);
  assign swap_first = place_at(pair[BITS-1:0]);
  assign swap_second = place_at(pair[BITS-1:0] ^ delta);
  assign next_epoch = after_pair[BITS] ? epoch + 1'b1 : epoch;
  assign next_pointer = after_pair[BITS] ? {BITS{1'b0}} : after_pair[BITS-1:0];

  wire wraps = gap == 0;
  assign gap_from = wraps ? LINES : gap - 1'b1;
  assign gap_to = gap;
  assign next_start = wraps ? start + 1'b1 : start;
  assign next_gap = gap_from;

  assign gap_due = gap_writes + 1 >= gap_every;
  assign swap_due = swap_every != 0 && swap_writes + 1 >= swap_every;

  always @(posedge clk) begin
    if (step) begin
      a0 <= line;
      a1 <= a0 * multiply_0[BITS-1:0] + add[BITS-1:0];
      a2 <= (a1 ^ (a1 >> HALF)) * multiply_1[BITS-1:0];
      a3 <= a2 ^ (a2 >> HALF);
      a4 <= a3 * multiply_0[BITS-1:0];
      a5 <= exchanged(a4 ^ key);
      a6 <= place_at(a5);
    end
    if (count) begin
      gap_writes  <= gap_due ? 0 : gap_writes + 1;
      swap_writes <= swap_due ? 0 : swap_writes + 1;
    end
    if (commit_gap) begin
      start <= next_start;
      gap   <= next_gap;
    end
    if (commit_swap) begin
      epoch   <= next_epoch;
      pointer <= next_pointer;
    end
    if (rst) begin
      start <= 0;
      gap <= LINES;
      epoch <= 0;
      pointer <= 0;
      gap_writes <= 0;
      swap_writes <= 0;
    end
  end
endmodule
