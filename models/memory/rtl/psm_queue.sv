// SPDX-License-Identifier: Apache-2.0 OR MIT
// The port's queues: reads and writes wait in one each, reads go first, and requests of one line
// keep their order.
//
// A request goes when no older request of the other queue is for the same line. Of two that may
// go the read is taken, unless many writes wait, or seven of one kind went while the other waited.
// The older of the two heads can always go, so that none waits for ever. A write's data stays here
// until the channel has it (`data_release`).
//
// Invariants (formal/queue.sv): each request leaves once, in its queue's order, and never before
// an older one of the same line.

module psm_queue #(
    parameter DEPTH_BITS = 3,
    parameter DATA_BITS = 4,
    parameter LINE = 12,
    parameter ID = 6,
    parameter DATA = 512
) (
    input clk,
    input rst,
    // From the host.
    input read_valid,
    output read_ready,
    input [ID-1:0] read_id,
    input [LINE-1:0] read_line,
    input write_valid,
    output write_ready,
    input [ID-1:0] write_id,
    input [LINE-1:0] write_line,
    input [DATA-1:0] write_data,
    // To the pipeline.
    output out_valid,
    output out_write,
    output [ID-1:0] out_id,
    output [LINE-1:0] out_line,
    output [DATA_BITS-1:0] out_slot,
    input out_take,
    // A write's data, and that it is not needed any more.
    input [DATA_BITS-1:0] data_slot,
    output [DATA-1:0] data,
    input data_release,
    output empty
);
  localparam DEPTH = 1 << DEPTH_BITS;
  localparam AGE = DEPTH_BITS + 7;

  reg [LINE-1:0] r_line[0:DEPTH-1];
  reg [ID-1:0] r_id[0:DEPTH-1];
  reg [AGE-1:0] r_age[0:DEPTH-1];
  reg [LINE-1:0] w_line[0:DEPTH-1];
  reg [ID-1:0] w_id[0:DEPTH-1];
  reg [AGE-1:0] w_age[0:DEPTH-1];
  reg [DATA_BITS-1:0] w_slot[0:DEPTH-1];
  reg [DATA-1:0] store[0:(1<<DATA_BITS)-1];

  reg [DEPTH_BITS:0] r_in, r_out, w_in, w_out;
  reg [DATA_BITS:0] d_in, d_out;
  reg [AGE-1:0] age;
  reg [2:0] turn;
  reg last_write;

  wire [DEPTH_BITS:0] r_count = r_in - r_out;
  wire [DEPTH_BITS:0] w_count = w_in - w_out;
  wire [DATA_BITS:0] d_count = d_in - d_out;
  assign read_ready = !r_count[DEPTH_BITS];
  assign write_ready = !w_count[DEPTH_BITS] && !d_count[DATA_BITS];
  wire read_in = read_valid && read_ready;
  wire write_in = write_valid && write_ready;
  assign empty = r_count == 0 && w_count == 0;

  wire [DEPTH_BITS-1:0] r_head = r_out[DEPTH_BITS-1:0];
  wire [DEPTH_BITS-1:0] w_head = w_out[DEPTH_BITS-1:0];

  // Older: the difference of ages is negative. A request sees fewer than 2^(AGE-2) others pass.
  function older(input [AGE-1:0] a, input [AGE-1:0] b);
    reg [AGE-1:0] by;
    begin
      by = a - b;
      older = by[AGE-1];
    end
  endfunction

  reg read_waits, write_waits;
  reg [DEPTH_BITS-1:0] at;
  integer k;
  always @* begin
    read_waits  = 0;
    write_waits = 0;
    at = 0;
    for (k = 0; k < DEPTH; k = k + 1) begin
      at = w_head + k[DEPTH_BITS-1:0];
      if (k < w_count && w_line[at] == r_line[r_head] && older(w_age[at], r_age[r_head]))
        read_waits = 1;
      at = r_head + k[DEPTH_BITS-1:0];
      if (k < r_count && r_line[at] == w_line[w_head] && older(r_age[at], w_age[w_head]))
        write_waits = 1;
    end
  end

  wire read_can = r_count != 0 && !read_waits;
  wire write_can = w_count != 0 && !write_waits;
  wire many = w_count >= DEPTH - 2;
  assign out_write = write_can && (!read_can || (turn == 7 ? !last_write : many));
  assign out_valid = read_can || write_can;
  assign out_id = out_write ? w_id[w_head] : r_id[r_head];
  assign out_line = out_write ? w_line[w_head] : r_line[r_head];
  assign out_slot = w_slot[w_head];
  assign data = store[data_slot];

  always @(posedge clk) begin
    if (rst) begin
      r_in <= 0;
      r_out <= 0;
      w_in <= 0;
      w_out <= 0;
      d_in <= 0;
      d_out <= 0;
      age <= 0;
      turn <= 0;
      last_write <= 0;
    end else begin
      if (read_in) begin
        r_line[r_in[DEPTH_BITS-1:0]] <= read_line;
        r_id[r_in[DEPTH_BITS-1:0]] <= read_id;
        r_age[r_in[DEPTH_BITS-1:0]] <= age;
        r_in <= r_in + 1'b1;
      end
      if (write_in) begin
        w_line[w_in[DEPTH_BITS-1:0]] <= write_line;
        w_id[w_in[DEPTH_BITS-1:0]] <= write_id;
        // Of a read and a write of the same cycle the read is the older one.
        w_age[w_in[DEPTH_BITS-1:0]] <= age + 1'b1;
        w_slot[w_in[DEPTH_BITS-1:0]] <= d_in[DATA_BITS-1:0];
        store[d_in[DATA_BITS-1:0]] <= write_data;
        w_in <= w_in + 1'b1;
        d_in <= d_in + 1'b1;
      end
      if (read_in || write_in) age <= age + 2'd2;
      if (out_valid && out_take) begin
        if (out_write) w_out <= w_out + 1'b1;
        else r_out <= r_out + 1'b1;
        last_write <= out_write;
        if (out_write != last_write || (out_write ? r_count : w_count) == 0) turn <= 0;
        else if (turn != 7) turn <= turn + 1'b1;
      end
      if (data_release) d_out <= d_out + 1'b1;
    end
  end
endmodule
