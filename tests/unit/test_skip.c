/* Networks whose last input goes straight to the logit: they begin as the model line_length, the way's gradient is that of a linear
 * map, and their files say it. */

#include "base/rng.h"
#include "detect/seizure.h"
#include "unit/cmocka_all.h"

enum { C = 5, T = 512, B = 2 };

static struct err err;
static float x[B * T * C], logits[B * T], dlogits[B * T];

static void check(int rc) {
    if (rc)
        fail_msg("%s", err.message);
}

struct net {
    struct device *dev;
    struct stream *s;
    struct seizure_net *net;
};

static struct net open_net(enum seizure_type type, bool training) {
    struct net n;
    struct seizure_config c;
    check(seizure_preset(type, "tiny", C, &c, &err));
    c.window = T;
    c.dropout = 0;
    c.skip = true;
    check(device_open("cpu", 0, &n.dev, &err));
    check(stream_open(n.dev, STREAM_NORMAL, &n.s, &err));
    struct seizure_options options = {.max_batch = B, .training = training, .precision = DTYPE_F32};
    check(seizure_new(n.dev, &c, &options, &n.net, &err));
    check(seizure_init(n.net, n.s, 3, 0.1, &err));
    struct rng rng;
    rng_init(&rng, 7, RNG_SYNTH, 0);
    for (int i = 0; i < B * T * C; i++)
        x[i] = (float)rng_normal(&rng);
    for (int i = 0; i < B * T; i++)
        dlogits[i] = (float)rng_normal(&rng);
    return n;
}

static void close_net(struct net *n) {
    seizure_free(n->net);
    stream_close(n->s);
    device_close(n->dev);
}

static void a_network_with_a_skip_begins_as_line_length(void **state) {
    (void)state;
    struct seizure_map map = seizure_map(SEIZURE_TYPE_LINE_LENGTH);
    for (enum seizure_type type = SEIZURE_TYPE_UNET; type <= SEIZURE_TYPE_CAUSAL; type++) {
        struct net n = open_net(type, false);
        struct tensor in = tensor_3d(x, DTYPE_F32, B, T, C), out = tensor_2d(logits, DTYPE_F32, B, T);
        check(seizure_infer(n.net, n.s, &in, &out, &err));
        for (int i = 0; i < B * T; i++)
            assert_true(fabsf(logits[i] - (map.weight * x[i * C + C - 1] + map.bias)) < 1e-4f);
        close_net(&n);
    }
}

static void the_gradient_of_the_skip_is_that_of_a_linear_map(void **state) {
    (void)state;
    for (enum seizure_type type = SEIZURE_TYPE_UNET; type <= SEIZURE_TYPE_CAUSAL; type++) {
        struct net n = open_net(type, true);
        struct param_set *set = seizure_params(n.net);
        const struct param *skip = param_find(set, "head.skip.weight"), *out_w = param_find(set, "head.out.weight");
        const struct seizure_pass pass = {.seed = 1};
        struct tensor in = tensor_3d(x, DTYPE_F32, B, T, C), out = tensor_2d(logits, DTYPE_F32, B, T),
                      back = tensor_2d(dlogits, DTYPE_F32, B, T);
        double want = 0;
        for (int i = 0; i < B * T; i++)
            want += (double)(dlogits[i] * x[i * C + C - 1]);
        for (int pass_of = 1; pass_of <= 2; pass_of++) { /* gradients add up */
            check(seizure_forward_train(n.net, n.s, &in, &pass, &out, &err));
            check(seizure_backward(n.net, n.s, &back, &pass, &err));
            const float *got = param_grad(set, skip).data, *head = param_grad(set, out_w).data;
            assert_true(fabs((double)*got - pass_of * want) < 1e-3 * (1 + fabs(want)));
            assert_true(*head != 0); /* the network itself learns although its head begins at 0 */
        }
        close_net(&n);
    }
}

static void configurations_say_it_and_models_without_a_network_have_none(void **state) {
    (void)state;
    struct seizure_config c, back;
    struct str text;
    struct json_writer w;
    struct json *j = NULL;
    for (int skip = 0; skip < 2; skip++) {
        check(seizure_preset(SEIZURE_TYPE_CAUSAL, "tiny", C, &c, &err));
        c.skip = skip;
        str_init(&text, 4096);
        json_writer_init(&w, &text);
        seizure_config_to_json(&c, &w, NULL);
        assert_int_equal(strstr(str_cstr(&text), "skip") != NULL, skip); /* files without it are as older versions write them */
        check(json_parse(str_cstr(&text), text.len, "c", &j, &err));
        check(seizure_config_from_json(j, &back, &err));
        assert_int_equal(back.skip, skip);
        json_free(j);
        str_done(&text);
    }
    int64_t with = seizure_parameter_count(&c);
    c.skip = false;
    assert_int_equal(with, seizure_parameter_count(&c) + 1);
    check(seizure_preset(SEIZURE_TYPE_LINE_LENGTH, "", 1, &c, &err));
    c.skip = true;
    assert_int_equal(seizure_config_check(&c, &err), ERR_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_network_with_a_skip_begins_as_line_length),
        cmocka_unit_test(the_gradient_of_the_skip_is_that_of_a_linear_map),
        cmocka_unit_test(configurations_say_it_and_models_without_a_network_have_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
