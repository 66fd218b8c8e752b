/* The built-in models: ordinary files, the same bytes each time, and what pretends to be one is refused. */

#include "detect/builtin.h"
#include "detect/detector.h"
#include "store/digest.h"
#include "store/safetensors.h"
#include "unit/cmocka_all.h"
#include "unit/temp_dir.h"

static const char *const names[] = {"line_length", "band_power", "ward"};
static struct err err;

static void ok(int rc) {
    if (rc)
        fail_msg("%s: %s", err_name(rc), err.message);
}

static void only_types_without_a_network_are_built_in(void **state) {
    (void)state;
    struct modelfile m;
    char path[16];
    assert_int_equal(seizure_feature_from_name("line_length"), SEIZURE_TYPE_LINE_LENGTH);
    assert_int_equal(seizure_feature_from_name("band_power"), SEIZURE_TYPE_BAND_POWER);
    const char *const others[] = {"seizure", "causal", "", "line_lengthy"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_int_equal(seizure_feature_from_name(others[i]), SEIZURE_TYPES);
    assert_int_equal(builtin_model("causal", &m, &err), ERR_INVALID);
    assert_true(builtin_has("line_length") && builtin_has("demo") && builtin_has("ward"));
    assert_false(builtin_has("causal") || builtin_has("demos") || builtin_has(""));
    assert_int_equal(builtin_installed("ward", path, sizeof path, &err), ERR_NOT_FOUND); /* it is computed, not installed */
    assert_int_equal(builtin_installed("demo", path, sizeof path, &err), ERR_RANGE);
    assert_int_equal(builtin_path("/a/long/path", "line_length", path, sizeof path, &err), ERR_RANGE);
}

static void a_trained_model_is_the_installed_file(void **state) {
    char installed[4096], path[4096], sha[2][DIGEST_HEX_SIZE];
    ok(builtin_write(*state, &err));
    ok(builtin_installed("demo", installed, sizeof installed, &err));
    ok(builtin_path(*state, "demo", path, sizeof path, &err));
    ok(digest_file(installed, sha[0], &err));
    ok(digest_file(path, sha[1], &err));
    assert_string_equal(sha[0], sha[1]);
}

static void files_are_written_with_the_same_bytes_each_time(void **state) {
    char path[4096], sha[2][DIGEST_HEX_SIZE];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        ok(builtin_path(*state, names[i], path, sizeof path, &err));
        for (int k = 0; k < 2; k++) {
            ok(builtin_write(*state, &err));
            ok(digest_file(path, sha[k], &err));
        }
        assert_string_equal(sha[0], sha[1]);
        struct modelfile m;
        ok(modelfile_read(path, &m, &err));
        assert_true(m.frontend.learn_background && m.frontend.hold_background == !strcmp(names[i], "ward"));
        assert_string_equal(m.montage, "bipolar-18");
        assert_string_equal(seizure_type_name(m.model.type), names[i]);
        assert_string_equal(frontend_normalize_name(m.frontend.normalize), names[i]);
        assert_string_equal(seizure_preset_name(&m.model), "none");
        assert_true(seizure_parameter_count(&m.model) == 2 && modelfile_window(&m) == 256 && modelfile_hop(&m) == 256);
    }
}

/* A copy of the built-in model with another value of one metadata key, or other weights. */
static int open_changed(void *dir, const char *key, const char *value, int rows) {
    const char *const keys[] = {"brr.kind", "brr.model", "brr.frontend", "brr.events", "brr.labels", "brr.hop"};
    struct safetensors_pair pairs[6];
    struct safetensors *st = NULL;
    struct model_image *image = NULL;
    char path[4096], changed[4096];
    const float values[2] = {1, 2};
    ok(builtin_write(dir, &err));
    ok(builtin_path(dir, "line_length", path, sizeof path, &err));
    ok(safetensors_open(path, &st, &err));
    for (size_t i = 0; i < 6; i++)
        pairs[i] = (struct safetensors_pair){keys[i], strcmp(keys[i], key) ? safetensors_metadata(st, keys[i]) : value};
    struct safetensors_entry entries[2] = {*safetensors_at(st, 0), *safetensors_at(st, 1)};
    for (int i = 0; i < 2; i++)
        if (entries[i].rank == 3 && rows > 1) {
            entries[i].shape[0] = rows;
            entries[i].bytes = (size_t)rows * sizeof *values;
            entries[i].data = values;
        }
    const struct safetensors_content content = {entries, 2, pairs, 6};
    char sha[DIGEST_HEX_SIZE];
    assert_true(str_format(changed, sizeof changed, "%s/changed", (char *)dir));
    ok(safetensors_write(changed, &content, sha, &err));
    safetensors_close(st);
    int rc = model_image_open(changed, &(struct model_use){8, DTYPE_F32, 0}, &image, &err);
    model_image_close(image);
    return rc;
}

#define MODEL(type, window, inputs, layers, width)                                                                                 \
    "{\"type\":\"" type "\",\"window\":" window ",\"encoder_channels\":[" width ",0,0,0],\"in_channels\":" inputs                  \
    ",\"rescnn_blocks\":0,\"mamba_layers\":" layers                                                                                \
    ",\"d_state\":0,\"d_conv\":0,\"expand\":0,\"headdim\":0,\"ngroups\":0,\"dropout\":0,\"mixer\":\"mamba2\"}"
#define FRONTEND(normalize) "{\"montage\":\"bipolar-18\",\"normalize\":\"" normalize "\"}"

static void hostile_files_are_refused(void **state) {
    static const struct {
        const char *key, *value, *says;
    } cases[] = {
        {"brr.model", MODEL("line_length", "15360", "18", "0", "0"), "one input"},
        {"brr.model", MODEL("line_length", "15360", "-1", "0", "0"), "input channels"},
        {"brr.model", MODEL("line_length", "15360", "1", "1", "0"), "layers"},
        {"brr.model", MODEL("line_length", "15360", "1", "999999999", "0"), "layers"},
        {"brr.model", MODEL("line_length", "15360", "1", "0", "64"), "layers"},
        {"brr.model", MODEL("line_length", "15376", "1", "0", "0"), "multiple of 256"},
        {"brr.model", MODEL("line_length", "1e18", "1", "0", "0"), "window"},
        {"brr.model", MODEL("line_lengths", "15360", "1", "0", "0"), "expected seizure|causal|line_length|band_power|ward"},
        {"brr.model", MODEL("seizure", "15360", "1", "0", "0"), "encoder_channels"},
        {"brr.model", MODEL("band_power", "15360", "1", "0", "0"), "cannot take normalize 'line_length'"},
        {"brr.frontend", FRONTEND("band_power"), "cannot take normalize 'band_power'"},
        {"brr.frontend", FRONTEND("window"), "cannot take normalize 'window'"},
        {"brr.frontend", FRONTEND("power"), "normalize 'power'"},
        {"brr.frontend", FRONTEND("line_length\",\"hold_background\":true,\"x\":\""), "hold_background"},
    };
    ok(open_changed(*state, "", NULL, 1));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(open_changed(*state, cases[i].key, cases[i].value, 1), ERR_INVALID);
        if (!strstr(err.message, cases[i].says))
            fail_msg("%s: '%s' lacks '%s'", cases[i].value, err.message, cases[i].says);
    }
    assert_int_equal(open_changed(*state, "", NULL, 2), ERR_INVALID); /* two rows of weights */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_types_without_a_network_are_built_in),
        cmocka_unit_test_setup_teardown(a_trained_model_is_the_installed_file, temp_dir_make, temp_dir_remove),
        cmocka_unit_test_setup_teardown(files_are_written_with_the_same_bytes_each_time, temp_dir_make, temp_dir_remove),
        cmocka_unit_test_setup_teardown(hostile_files_are_refused, temp_dir_make, temp_dir_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
