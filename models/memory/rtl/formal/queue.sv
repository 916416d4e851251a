// SPDX-License-Identifier: Apache-2.0 OR MIT
// Proof: the port's queue loses no request, answers none twice, and keeps the order of a line.
//
// Two requests with any identifiers are followed; the host and the pipeline do what they like, but
// an identifier is given again only after its request has left. Queues of two.

module queue_proof (
    input clk,
    input read_valid,
    input write_valid,
    input [1:0] read_id,
    input [1:0] write_id,
    input read_line,
    input write_line,
    input write_data,
    input out_take,
    input [1:0] any_a,
    input [1:0] any_b
);
  reg [1:0] a, b;  // the same from the first cycle on
  reg rst = 1;
  reg [4:0] waits = 0;
  reg a_in = 0, b_in = 0, a_first = 0, a_line = 0, b_line = 0, a_write = 0;
  wire read_ready, write_ready, out_valid, out_write, out_line, data, empty;
  wire [1:0] out_id;
  wire out_slot;

  psm_queue #(
      .DEPTH_BITS(1),
      .DATA_BITS(1),
      .LINE(1),
      .ID(2),
      .DATA(1)
  ) queue (
      .clk(clk),
      .rst(rst),
      .read_valid(read_valid),
      .read_ready(read_ready),
      .read_id(read_id),
      .read_line(read_line),
      .write_valid(write_valid),
      .write_ready(write_ready),
      .write_id(write_id),
      .write_line(write_line),
      .write_data(write_data),
      .out_valid(out_valid),
      .out_write(out_write),
      .out_id(out_id),
      .out_line(out_line),
      .out_slot(out_slot),
      .out_take(out_take),
      .data_slot(out_slot),
      .data(data),
      // The channel is done with a write as soon as it has it.
      .data_release(out_valid && out_take && out_write),
      .empty(empty)
  );

  wire reads = read_valid && read_ready && !rst;
  wire writes = write_valid && write_ready && !rst;
  wire leaves = out_valid && out_take && !rst;
  wire a_enters = (reads && read_id == a) || (writes && write_id == a);
  wire b_enters = (reads && read_id == b) || (writes && write_id == b);
  wire a_leaves = leaves && out_id == a;
  wire b_leaves = leaves && out_id == b;

  always @(posedge clk) begin
    rst <= 0;
    if (rst) a <= any_a;
    if (rst) b <= any_b;
    if (!rst) assume (a != b);
    // An identifier is of one request at a time.
    if (reads && writes) assume (read_id != write_id);
    if (a_in && !a_leaves) assume (!a_enters);
    if (b_in && !b_leaves) assume (!b_enters);
    if (a_leaves) assume (!a_enters);
    if (b_leaves) assume (!b_enters);

    if (a_enters) begin
      a_in <= 1;
      a_write <= writes && write_id == a;
      a_line <= writes && write_id == a ? write_line : read_line;
      // Of the same cycle the read is the older one.
      a_first <= (!b_in || b_leaves) && !(b_enters && writes && write_id == a);
      waits <= 0;
    end
    if (b_enters) b_in <= 1;
    if (b_enters) b_line <= writes && write_id == b ? write_line : read_line;
    if (a_leaves) a_in <= 0;
    if (b_leaves) b_in <= 0;
    if (a_in && leaves) waits <= waits + 1'b1;

    if (!rst) begin
      // Answered twice, or an answer that nobody asked for.
      if (a_leaves) no_stray : assert (a_in);
      // What leaves is what came.
      if (a_leaves) same_kind : assert (out_write == a_write && out_line == a_line);
      // Of one line the first to come is the first to leave.
      if (a_in && b_in && a_first && b_leaves) line_order : assert (a_line != b_line);
      // Lost: it can never leave. Others pass it a bounded number of times.
      if (a_in) not_lost : assert (!empty);
      if (a_in) not_starved : assert (waits < 24);
      // The pipeline is never kept waiting while something is there.
      if (!empty) no_deadlock : assert (out_valid);
    end
  end
endmodule
