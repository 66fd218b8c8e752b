#include "nn/plan.h"

void plan_init(struct plan *plan) { *plan = (struct plan){0}; }

void plan_done(struct plan *plan) {
    if (plan->device)
        device_free(plan->device, plan->base);
    plan_init(plan);
}

int plan_reserve(struct plan *plan, struct device *dev, struct err *err) {
    void *base = NULL;
    int rc = device_alloc(dev, plan->peak ? plan->peak : 64, &base, err);
    if (rc)
        return err_wrap(err, "activations need %zu MiB; lower training.micro_batch_size", plan->peak >> 20);
    plan->device = dev;
    plan->base = base;
    plan->reserved = plan->peak;
    plan->used = 0;
    return 0;
}

struct tensor plan_tensor(struct plan *plan, enum dtype dtype, int64_t b, int64_t t, int64_t c) {
    size_t bytes = ((size_t)(b * t * c) * dtype_bytes(dtype) + 63) / 64 * 64, at = plan->used;
    plan->used += bytes;
    if (plan->used > plan->peak)
        plan->peak = plan->used;
    if (plan->base && plan->used > plan->reserved) {
        plan->overflow = true; /* a programming error; the caller refuses to run */
        return (struct tensor){0};
    }
    void *data = plan->base ? plan->base + at : (void *)(uintptr_t)(at + 64);
    return tensor_3d(data, dtype, b, t, c);
}
