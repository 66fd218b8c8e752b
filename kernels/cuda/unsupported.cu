/* unsupported: ops of the table that this backend does not have; they refuse by name. */
#include "kernels/cuda/cuda.cuh"

#define REFUSE(op, args)                                                                                                           \
    extern "C" int cuda_##op(struct stream *s, const struct args *a, struct err *err) {                                            \
        (void)a;                                                                                                                   \
        return err_set(err, ERR_UNSUPPORTED, "op " #op " is unsupported on %s; use the device cpu", s->device->info.name);         \
    }
REFUSE(conv1d_depthwise, conv1d_depthwise_args)
REFUSE(conv1d_depthwise_backward, conv1d_depthwise_backward_args)
REFUSE(scan1, scan1_args)
REFUSE(scan1_backward, scan1_backward_args)
REFUSE(ssd, ssd_args)
REFUSE(ssd_backward, ssd_backward_args)
