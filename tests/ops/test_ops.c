/* Every op of the table but the scans and their neighbours (test_scan_*.c): held against double references and finite
 * differences, on odd sizes, in guarded memory full of NaN, twice, with one to three threads, row by row, with wrong arguments. */
#include "op_elements.h"

static const struct family families[] = {
    {"conv1d", conv_arrays, NULL, conv_reference, NULL, conv_run, conv_cases, .row_free = true, .bf16 = true},
    {"conv1d_backward", conv_backward_arrays, NULL, conv_backward_reference, conv_objective, conv_backward_run, conv_cases,
     .bf16 = true},
    {"convt1d", convt_arrays, NULL, convt_reference, NULL, convt_run, convt_cases, .row_free = true, .bf16 = true},
    {"convt1d_backward", convt_backward_arrays, NULL, convt_backward_reference, convt_objective, convt_backward_run, convt_cases,
     .bf16 = true},
    {"linear", linear_arrays, NULL, linear_reference, NULL, linear_run, linear_cases, .row_free = true, .bf16 = true},
    {"linear_backward", linear_backward_arrays, NULL, linear_backward_reference, linear_objective, linear_backward_run,
     linear_cases, .bf16 = true},
    {"batchnorm", bn_arrays, NULL, bn_reference, NULL, bn_run, bn_cases, .any_threads = true, .bf16 = true},
    {"running_statistics", rs_arrays, NULL, rs_reference, NULL, rs_run, rs_cases, .any_threads = true},
    {"batchnorm_backward", bn_backward_arrays, bn_derive, bn_backward_reference, bn_objective, bn_backward_run, bn_cases,
     .any_threads = true, .bf16 = true},
    {"layernorm", ln_arrays, NULL, ln_reference, NULL, ln_run, ln_cases, .any_threads = true, .row_free = true, .bf16 = true},
    {"layernorm_backward", ln_backward_arrays, ln_derive, ln_backward_reference, ln_objective, ln_backward_run, ln_cases,
     .any_threads = true, .bf16 = true},
    {"eltwise", eltwise_arrays, NULL, eltwise_reference, NULL, eltwise_run, eltwise_cases, .any_threads = true, .row_free = true,
     .bf16 = true},
    {"sigmoid", sigmoid_arrays, NULL, sigmoid_reference, NULL, sigmoid_run, sigmoid_cases, .any_threads = true, .row_free = true},
    {"loss", loss_arrays, NULL, loss_reference, loss_objective, loss_run, loss_cases, .any_threads = true},
    {"norm", norm_arrays, NULL, norm_reference, NULL, norm_run, norm_cases, .any_threads = true},
    {"adamw", adamw_arrays, NULL, adamw_reference, NULL, adamw_run, adamw_cases, .any_threads = true},
};
enum { N_FAMILIES = sizeof families / sizeof *families };

/* Ops that other programs cover: spike_tick in tests/unit/test_burst.c and test_burst_bits.c, spike_merge in test_burst_ranks.c,
 * augment in tests/unit/test_augment.c. */
static const char *const elsewhere[] = {"augment",
                                        "conv1d_depthwise",
                                        "conv1d_depthwise_backward",
                                        "rmsnorm_gated",
                                        "rmsnorm_gated_backward",
                                        "scan1",
                                        "scan1_backward",
                                        "ssd",
                                        "ssd_backward",
                                        "dropout",
                                        "windows",
                                        "mlp",
                                        "mlp_backward",
                                        "geodesic",
                                        "spike_tick",
                                        "spike_merge"};

static void every_op_of_the_table_is_tested(void **state) {
    (void)state;
#define OP_NAME(op, args) #op,
    static const char *const ops[] = {OP_MAP(OP_NAME)};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        int found = 0;
        for (int f = 0; f < N_FAMILIES; f++)
            found += !strcmp(families[f].op, ops[i]);
        for (size_t f = 0; f < sizeof elsewhere / sizeof *elsewhere; f++)
            found += !strcmp(elsewhere[f], ops[i]);
        if (found != 1)
            fail_msg("op %s is tested %d times", ops[i], found);
    }
}

/* Calls `test` with every case of every family, in F32 and, where the op takes it and the device has it, in bf16. */
static void for_all(void (*test)(struct instance *x)) {
    struct device_info info;
    device_describe(fixture.device, &info);
    for (int f = 0; f < N_FAMILIES; f++)
        for (int i = 0; families[f].cases[i].name; i++)
            for (int bf16 = 0; bf16 <= (families[f].bf16 && info.has_bf16); bf16++) {
                struct op_case c = families[f].cases[i];
                struct instance x;
                c.bf16 = bf16;
                instance_new(&x, &families[f], &c);
                test(&x);
                instance_free(&x);
            }
}

static void results_and_gradients_match_the_reference(void **state) {
    (void)state;
    for_all(check_against_reference);
}

static void twice_check(struct instance *x) {
    unsigned char *kept[MAX_ARRAYS] = {0};
    instance_run(x);
    for (int i = 0; i < MAX_ARRAYS; i++)
        if (x->spec[i].role) {
            kept[i] = fixture_memory(x->bytes[i]);
            memcpy(kept[i], x->memory[i], x->bytes[i]);
        }
    instance_restore(x);
    instance_run(x);
    check_same_memory(x, kept, "in a second run");
    for (int threads = 1; threads <= 3 && x->family->any_threads; threads++) {
        fixture_threads(threads);
        instance_restore(x);
        instance_run(x);
        check_same_memory(x, kept, "with another number of threads");
    }
    fixture_threads(2);
    for (int i = 0; i < MAX_ARRAYS; i++)
        free(kept[i]);
}

static void two_runs_and_any_number_of_threads_give_the_same_bits(void **state) {
    (void)state;
    for_all(twice_check);
}

static void alone_check(struct instance *x) {
    if (!x->family->row_free || x->c->b < 2 || (x->spec[0].role && !x->spec[0].rows))
        return;
    instance_run(x);
    check_rows_alone(x);
}

static void a_row_does_not_depend_on_its_batch(void **state) {
    (void)state;
    for_all(alone_check);
}

static void wrong_arguments_are_refused_by_name_and_nothing_is_touched(void **state) {
    (void)state;
    for_all(check_refusals);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_of_the_table_is_tested),
        cmocka_unit_test(results_and_gradients_match_the_reference),
        cmocka_unit_test(two_runs_and_any_number_of_threads_give_the_same_bits),
        cmocka_unit_test(a_row_does_not_depend_on_its_batch),
        cmocka_unit_test(wrong_arguments_are_refused_by_name_and_nothing_is_touched),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
