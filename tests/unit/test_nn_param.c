/* Parameter table and activation plan: offsets, views, the decay mask, memory measured before it is taken and then reused. */

#include "nn/blocks.h"
#include "unit/cmocka_all.h"

static struct device *dev;
static struct err err;

static int open_device(void **state) {
    (void)state;
    return device_open("cpu", 1, &dev, &err);
}

static int close_device(void **state) {
    (void)state;
    device_close(dev);
    return 0;
}

static void add(struct param_set *set, enum param_kind kind, int rank, const int64_t dim[3], const char *name) {
    struct param_spec spec = {kind, rank, {dim[0], dim[1], dim[2]}};
    assert_int_equal(param_add(set, &spec, &err, "%s", name), 0);
}

static void tensors_start_aligned_and_do_not_overlap(void **state) {
    (void)state;
    struct param_set set;
    param_set_init(&set);
    add(&set, PARAM_WEIGHT, 3, (int64_t[3]){5, 3, 7}, "a.weight");
    add(&set, PARAM_PLAIN, 1, (int64_t[3]){5}, "a.bias");
    add(&set, PARAM_BUFFER, 1, (int64_t[3]){5}, "bn.running_mean");
    add(&set, PARAM_WEIGHT, 2, (int64_t[3]){4, 9}, "b.weight");
    assert_int_equal(param_live_count(&set), 5 * 3 * 7 + 5 + 4 * 9);
    int64_t at = 0;
    for (int i = 0; i < set.count; i++) {
        const struct param *p = &set.items[i];
        assert_int_equal(p->index, i);
        assert_int_equal(p->offset % PARAM_ALIGN, 0);
        if (p->kind == PARAM_BUFFER)
            continue;
        assert_true(p->offset >= at);
        at = p->offset + p->count;
    }
    assert_true(at <= set.data_count);
    assert_null(param_find(&set, "a"));
    int64_t live, before;
    device_alloc_stats(dev, &before, &live);
    assert_int_equal(param_set_alloc(&set, dev, true, &err), 0);
    device_alloc_stats(dev, &live, &at);
    assert_int_equal(live - before, param_set_bytes(&set, true));
    const struct param *w = param_find(&set, "b.weight");
    struct tensor value = param_value(&set, w), grad = param_grad(&set, w);
    assert_ptr_equal(value.data, set.data + w->offset);
    assert_ptr_equal(grad.data, set.grad + w->offset);
    assert_true(value.rank == 2 && value.dim[0] == 4 && value.dim[1] == 9 && value.ld == 9);
    assert_ptr_equal(param_value(&set, param_find(&set, "bn.running_mean")).data, set.buffers);
    param_set_done(&set);
    device_alloc_stats(dev, &live, &at);
    assert_int_equal(live, before);
}

static void decay_touches_weights_only(void **state) {
    (void)state;
    struct param_set set;
    param_set_init(&set);
    add(&set, PARAM_WEIGHT, 3, (int64_t[3]){3, 1, 4}, "conv.weight");
    add(&set, PARAM_PLAIN, 1, (int64_t[3]){3}, "A_log");
    add(&set, PARAM_WEIGHT, 2, (int64_t[3]){2, 3}, "proj.weight");
    assert_int_equal(param_set_alloc(&set, dev, true, &err), 0);
    int64_t marked = 0;
    for (int64_t i = 0; i < set.data_count; i++)
        marked += set.decay[i];
    assert_int_equal(marked, 12 + 6);
    for (int i = 0; i < set.count; i++)
        for (int64_t k = 0; k < set.items[i].count; k++)
            assert_int_equal(set.decay[set.items[i].offset + k], set.items[i].kind == PARAM_WEIGHT);
    param_set_done(&set);
}

static void versions_of_two_sets_never_meet(void **state) {
    (void)state;
    uint64_t seen[8];
    for (int i = 0; i < 8; i++) {
        struct param_set set;
        param_set_init(&set);
        add(&set, PARAM_PLAIN, 1, (int64_t[3]){3}, "b");
        assert_int_equal(param_set_alloc(&set, dev, false, &err), 0);
        seen[i] = set.version;
        assert_true(seen[i] != 0);
        for (int k = 0; k < i; k++)
            assert_true(seen[i] > seen[k] + 1000);
        param_set_done(&set);
    }
}

static void long_names_are_refused(void **state) {
    (void)state;
    struct param_set set;
    char name[PARAM_NAME_MAX + 8];
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = '\0';
    param_set_init(&set);
    assert_int_equal(param_add(&set, &(struct param_spec){PARAM_PLAIN, 1, {1}}, &err, "%s", name), ERR_RANGE);
    param_set_done(&set);
}

/* Three tensors, the middle two released between. */
static size_t lay_out(struct plan *plan, struct tensor ret[4]) {
    ret[0] = plan_tensor(plan, DTYPE_F32, 2, 3, 5);
    size_t mark = plan_mark(plan);
    ret[1] = plan_tensor(plan, DTYPE_BF16, 1, 100, 3);
    ret[2] = plan_tensor(plan, DTYPE_F32, 1, 7, 11);
    plan_release(plan, mark);
    ret[3] = plan_tensor(plan, DTYPE_F32, 1, 1, 1);
    return plan->used;
}

static void a_plan_takes_what_the_dry_run_measured_and_reuses_it(void **state) {
    (void)state;
    struct plan plan;
    struct tensor dry[4], real[4], again[4];
    plan_init(&plan);
    lay_out(&plan, dry);
    size_t peak = plan.peak;
    assert_int_equal(peak, 128 + 640 + 320);
    int64_t before, after, n;
    device_alloc_stats(dev, &before, &n);
    assert_int_equal(plan_reserve(&plan, dev, &err), 0);
    device_alloc_stats(dev, &after, &n);
    assert_int_equal(after - before, peak);
    lay_out(&plan, real);
    plan.used = 0;
    lay_out(&plan, again);
    for (int i = 0; i < 4; i++) {
        assert_ptr_equal(real[i].data, again[i].data);
        assert_int_equal((uintptr_t)real[i].data % 64, 0);
        memset(real[i].data, 1, tensor_span_bytes(&real[i])); /* inside the reservation, for the sanitizers */
    }
    assert_ptr_equal(real[1].data, real[3].data);
    assert_false(plan.overflow);
    plan.used = 0;
    struct tensor big = plan_tensor(&plan, DTYPE_F32, 100, 100, 100);
    assert_false(tensor_present(&big));
    assert_true(plan.overflow);
    plan_done(&plan);
}

static void a_plan_beyond_memory_says_what_it_needs(void **state) {
    (void)state;
    struct plan plan;
    plan_init(&plan);
    plan_tensor(&plan, DTYPE_F32, 1 << 20, 1 << 20, 64);
    int rc = plan_reserve(&plan, dev, &err);
    assert_int_equal(rc, ERR_EXHAUSTED);
    assert_non_null(strstr(err.message, "micro_batch_size"));
    plan_done(&plan);
}

static void conv_block_rows_are_named_as_in_checkpoints(void **state) {
    (void)state;
    static const char *const names[] = {"encoder.2.conv1.weight",   "encoder.2.conv1.bias",       "encoder.2.bn1.weight",
                                        "encoder.2.bn1.bias",       "encoder.2.bn1.running_mean", "encoder.2.bn1.running_var",
                                        "encoder.2.down.weight",    "rescnn.0.branch7.conv.bias", "rescnn.0.branch3.bn.running_var",
                                        "rescnn.0.fuse.conv.weight"};
    struct param_set set;
    param_set_init(&set);
    assert_int_equal(encoder_params(&set, 2, 3, 4, &err), 0);
    assert_int_equal(rescnn_params(&set, 0, 512, &err), 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_non_null(param_find(&set, names[i]));
    assert_int_equal(param_find(&set, "rescnn.0.branch5.conv.weight")->dim[0], 170);
    assert_int_equal(param_find(&set, "rescnn.0.branch7.conv.weight")->dim[0], 172);
    param_set_done(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_start_aligned_and_do_not_overlap),
        cmocka_unit_test(decay_touches_weights_only),
        cmocka_unit_test(versions_of_two_sets_never_meet),
        cmocka_unit_test(long_names_are_refused),
        cmocka_unit_test(a_plan_takes_what_the_dry_run_measured_and_reuses_it),
        cmocka_unit_test(a_plan_beyond_memory_says_what_it_needs),
        cmocka_unit_test(conv_block_rows_are_named_as_in_checkpoints),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
