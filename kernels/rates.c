#include "kernels/rates.h"

double rates_floor(const struct rates *rates, const struct rates_work *w, enum dtype activations) {
    double act_rate = activations == DTYPE_BF16 && rates->flops_bf16 > 0 ? rates->flops_bf16 : rates->flops;
    double floor_s = w->bytes / rates->bytes, exp_s = rates->exponentials > 0 ? w->exponentials / rates->exponentials : 0;
    double flop_s = w->flops / rates->flops + w->flops_act / act_rate;
    floor_s = exp_s > floor_s ? exp_s : floor_s;
    floor_s = flop_s > floor_s ? flop_s : floor_s;
    return floor_s + (rates->host_bytes > 0 ? w->host_bytes / rates->host_bytes : 0);
}
