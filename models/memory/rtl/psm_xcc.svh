// SPDX-License-Identifier: Apache-2.0 OR MIT
// What a piece is on a device, and how its check is made. Included into modules.
//
// A piece is {check, generation, 32 bytes}. The check is a CRC-32C over bytes, generation, number
// of the piece and place. A CRC is affine: each bit of it is the parity of some bits of the
// message (PSM_CRC_MASK_*, made by lab/psm_parameters.py), so that it takes one cycle.

function automatic [31:0] piece_check(
    input [255:0] data, input [7:0] generation, input [1:0] piece, input [63:0] phys);
  reg [335:0] message;
  begin
    message = {phys, 6'b0, piece, generation, data};
    piece_check = `PSM_CRC_BITS(message) ^ `PSM_CRC_ZERO;
  end
endfunction

// Whether generation a is newer than b: they count modulo 256.
function automatic newer(input [7:0] a, input [7:0] b);
  reg [7:0] ahead;
  begin
    ahead = a - b;
    newer = ahead != 0 && !ahead[7];
  end
endfunction

// The newest of three, as `newest_generation` of the model goes through them.
function automatic [7:0] newest(input [23:0] ages);
  reg [7:0] best, ahead;
  begin
    best = ages[7:0];
    ahead = ages[15:8] - best;
    if (!ahead[7]) best = ages[15:8];
    ahead = ages[23:16] - best;
    if (!ahead[7]) best = ages[23:16];
    newest = best;
  end
endfunction
