// SPDX-License-Identifier: Apache-2.0 OR MIT
// Proof: start, gap and the reseeding's pointer are always consistent, whatever the randomizer.
//
// The registers begin with any values that the invariant allows, so that what holds after one move
// holds after all. Two lines are followed before and after one move of the gap or one exchange:
// they never share a place, never have the gap, and change their place exactly if they are moved.

module leveler_proof #(
    parameter BITS = 4
) (
    input clk
);
  (* anyconst *) reg [BITS-1:0] x;
  (* anyconst *) reg [BITS-1:0] y;
  (* anyconst *) reg [63:0] multiply_0;
  (* anyconst *) reg [63:0] multiply_1;
  (* anyconst *) reg [63:0] add;
  (* anyconst *) reg [63:0] order;
  (* anyconst *) reg reseeds;
  (* anyconst *) reg exchanges;
  localparam [BITS:0] LINES = 1 << BITS;
  localparam STAGES = 8;

  reg [4:0] t = 0;
  wire commits = t == STAGES;
  wire [BITS:0] place_x, place_y, from, to, first, second, gap, gap_y;
  wire [BITS-1:0] start, epoch, pointer, start_y, epoch_y, pointer_y;

  psm_leveler #(
      .BITS(BITS)
  ) of_x (
      .clk(clk),
      .rst(1'b0),
      .step(1'b1),
      .gap_every(32'd100),
      .swap_every({31'd0, reseeds}),
      .multiply_0(multiply_0),
      .multiply_1(multiply_1),
      .add(add),
      .order(order),
      .line(x),
      .place(place_x),
      .count(1'b0),
      .gap_from(from),
      .gap_to(to),
      .swap_first(first),
      .swap_second(second),
      .commit_gap(commits && !exchanges),
      .commit_swap(commits && exchanges),
      .start(start),
      .gap(gap),
      .epoch(epoch),
      .pointer(pointer)
  );
  psm_leveler #(
      .BITS(BITS)
  ) of_y (
      .clk(clk),
      .rst(1'b0),
      .step(1'b1),
      .gap_every(32'd100),
      .swap_every({31'd0, reseeds}),
      .multiply_0(multiply_0),
      .multiply_1(multiply_1),
      .add(add),
      .order(order),
      .line(y),
      .place(place_y),
      .count(1'b0),
      .commit_gap(commits && !exchanges),
      .commit_swap(commits && exchanges),
      .start(start_y),
      .gap(gap_y),
      .epoch(epoch_y),
      .pointer(pointer_y)
  );

  // The change from this epoch's key to the next, and its upper bit.
  wire [BITS-1:0] number = epoch, following = epoch + 1'b1;
  wire [BITS-1:0] delta = (number ^ (number >> 1)) ^ (following ^ (following >> 1));
  reg [BITS-1:0] upper;
  integer k;
  always @* begin
    upper = 0;
    for (k = 0; k < BITS; k = k + 1) if (delta[k]) upper = 1 << k;
  end
  // The gap is a line's, and the pointer is at the smaller member of a pair.
  wire consistent = gap <= LINES && (!reseeds || (pointer & upper) == 0);

  reg [BITS:0] from_then, to_then, first_then, second_then, x_then;
  always @(posedge clk) begin
    t <= t + 1'b1;
    assume (x != y);
    assume (multiply_0[0] && multiply_1[0]);
    if (exchanges) assume (reseeds);
    if (!reseeds && t == 0) assume (pointer == 0);
    if (t == 0) begin
      assume (consistent);
      assume (start == start_y && gap == gap_y && epoch == epoch_y && pointer == pointer_y);
    end
    if (commits) begin
      from_then <= from;
      to_then <= to;
      first_then <= first;
      second_then <= second;
      x_then <= place_x;
      old_places : assert (place_x != place_y);
      old_gap : assert (place_x != gap && place_x <= LINES);
      moves_into_gap : assert (to == gap && from != to);
    end
    if (t == STAGES + 1) still_consistent : assert (consistent);
    if (t == 2 * STAGES + 1) begin
      new_places : assert (place_x != place_y);
      new_gap : assert (place_x != gap && place_x <= LINES);
      if (!exchanges) gap_moves : assert (place_x == (x_then == from_then ? to_then : x_then));
      if (exchanges)
        pair_moves : assert (place_x == (x_then == first_then ? second_then
            : x_then == second_then ? first_then : x_then));
    end
  end
endmodule
