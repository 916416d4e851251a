// SPDX-License-Identifier: Apache-2.0 OR MIT
// The randomizer's numbers from a seed: SplitMix64's mixer, four times, by one adder.
//
// multiply[0] = mix(seed) | 1, multiply[1] = mix(seed ^ 0x55) | 1, add = mix(seed ^ 0xaa), order of
// the keys = mix(seed ^ 0x77). It takes some hundred cycles after a reset, and no multiplier.

module psm_seed (
    input clk,
    input start,
    input [63:0] seed,
    output reg ready,
    output reg [63:0] multiply_0,
    output reg [63:0] multiply_1,
    output reg [63:0] add,
    output reg [63:0] order
);
  reg [1:0] which;
  reg [1:0] part;
  reg [6:0] bits;
  reg [63:0] x, factor, sum;
  wire [63:0] folded = x ^ (x >> 31);
  wire [63:0] first = 64'hbf58_476d_1ce4_e5b9;
  wire [63:0] second = 64'h94d0_49bb_1331_11eb;

  always @(posedge clk) begin
    if (start) begin
      ready <= 0;
      which <= 0;
      part <= 0;
      bits <= 0;
      x <= seed;
      sum <= 0;
      factor <= 0;
    end else if (!ready) begin
      if (bits != 0) begin
        if (factor[0]) sum <= sum + x;
        factor <= factor >> 1;
        x <= x << 1;
        bits <= bits - 1'b1;
      end else begin
        part <= part + 1'b1;
        sum <= 0;
        case (part)
          0: begin
            x <= x ^ (x >> 30);
            factor <= first;
            bits <= 64;
          end
          1: begin
            x <= sum ^ (sum >> 27);
            factor <= second;
            bits <= 64;
          end
          2: x <= sum;
          default: begin
            case (which)
              0: multiply_0 <= folded | 64'd1;
              1: multiply_1 <= folded | 64'd1;
              2: add <= folded;
              default: order <= folded;
            endcase
            case (which)
              0: x <= seed ^ 64'h55;
              1: x <= seed ^ 64'haa;
              default: x <= seed ^ 64'h77;
            endcase
            which <= which + 1'b1;
            if (which == 3) ready <= 1;
          end
        endcase
      end
    end
  end
endmodule
