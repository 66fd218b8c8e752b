/* scan_body: the kernels of scan_job.h written once over scan_simd.h; each scan_<isa>.c compiles them for its instruction set. */
#include "kernels/cpu/depthwise_body.h"
#include "kernels/cpu/probe_body.h"
#include "kernels/cpu/rmsnorm_body.h"
#include "kernels/cpu/scan_backward_body.h"
#include "kernels/cpu/scan_forward_body.h"
#include "kernels/cpu/ssd_chunked_body.h"

const struct scan_kernels SCAN_KERNELS = {
    .isa = SCAN_ISA,
    .lanes = VW,
    .forward_bytes = forward_bytes,
    .backward_bytes = backward_bytes,
    .pack_a = pack_a,
    .forward = forward_item,
    .backward = backward_item,
    .unpack_a = unpack_a,
    .sum_parts = sum_parts,
    .write_row = write_row,
    .chunked_bytes = chunked_bytes,
    .chunked = chunked_item,
    .depthwise_bytes = depthwise_bytes,
    .depthwise = depthwise_item,
    .depthwise_backward = depthwise_backward_item,
    .rmsnorm = rmsnorm_rows,
    .rmsnorm_backward = rmsnorm_backward_slice,
    .probe_exponentials = probe_exponentials,
    .probe_multiply_adds = probe_multiply_adds,
};
