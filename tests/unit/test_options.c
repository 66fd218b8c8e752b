#include "unit/cmocka_all.h"

#include "base/json.h"
#include "base/options.h"

struct config {
    bool on;
    int64_t count, wait_ms, size_bytes, signed_count;
    double rate;
    const char *name, *path, *mode;
    int color;
    struct option_list names;
    struct option_numbers edges;
    const struct yaml_node *free_form;
};

#define AT(member) offsetof(struct config, member)
static const struct option rows[] = {
    {"on", OPTION_BOOL, AT(on), "false", 0, 0, NULL, "a switch"},
    {"group.count", OPTION_I64, AT(count), "3", 1, 100, NULL, "how many"},
    {"group.signed", OPTION_I64, AT(signed_count), "-1", -5, 0, NULL, "at most zero"},
    {"group.rate", OPTION_F64, AT(rate), "0.5", 0, 1, NULL, "a share"},
    {"group.wait", OPTION_DURATION, AT(wait_ms), "90s", 1000, 0, NULL, "how long"},
    {"group.size", OPTION_BYTES, AT(size_bytes), "1KiB", 1, 1 << 20, NULL, "how large"},
    {"group.color", OPTION_ENUM, AT(color), "green", 0, 0, "red|green|blue", "which"},
    {"name", OPTION_STRING, AT(name), NULL, 0, 0, NULL, "what it is called"},
    {"path", OPTION_STRING, AT(path), "null", 0, 0, NULL, "where"},
    {"mode", OPTION_STRING, AT(mode), "auto", 0, 0, NULL, "how"},
    {"names", OPTION_STRINGS, AT(names), "[a, b]", 0, 0, NULL, "several"},
    {"edges", OPTION_F64S, AT(edges), "[]", 0, 10, NULL, "rising"},
    {"free", OPTION_NODE, AT(free_form), NULL, 0, 0, NULL, "anything"},
    {"old.key", OPTION_NOTICE, 0, NULL, 0, 0, NULL, "use group.count"},
};
static const struct option_table table = OPTION_TABLE(rows);

static struct arena arena;

static int make_arena(void **state) {
    (void)state;
    arena_init(&arena, 1 << 20);
    return 0;
}

static int free_arena(void **state) {
    (void)state;
    arena_done(&arena);
    return 0;
}

static struct yaml_node *tree_of(const char *text) {
    struct yaml_node *root = NULL;
    struct err err = {0};
    if (yaml_parse(&arena, text, strlen(text), "t.yaml", &root, &err))
        fail_msg("%s", err.message);
    return root;
}

static struct config config_of(const char *text) {
    struct config c;
    struct err err = {0};
    memset(&c, 0xAA, sizeof c); /* every member must be set */
    if (options_read(&table, tree_of(text), "t.yaml", &arena, &c, &err))
        fail_msg("%s: %s", text, err.message);
    return c;
}

static void assert_refused(const char *text, const char *why) {
    struct config c = {0};
    struct err err = {0};
    assert_int_equal(options_read(&table, tree_of(text), "t.yaml", &arena, &c, &err), ERR_INVALID);
    if (!strstr(err.message, why))
        fail_msg("'%s' is not in: %s", why, err.message);
}

static void what_is_absent_has_its_default(void **state) {
    (void)state;
    struct config c = config_of("name: x\n");
    assert_false(c.on);
    assert_int_equal(c.count, 3);
    assert_int_equal(c.signed_count, -1);
    assert_true(c.rate == 0.5);
    assert_int_equal(c.wait_ms, 90000);
    assert_int_equal(c.size_bytes, 1024);
    assert_int_equal(c.color, 1);
    assert_string_equal(c.name, "x");
    assert_null(c.path);
    assert_int_equal(c.names.count, 2);
    assert_string_equal(c.names.items[1], "b");
    assert_int_equal(c.edges.count, 0);
    assert_null(c.free_form);
}

static void every_type_reads_what_is_given(void **state) {
    (void)state;
    struct config c = config_of("on: true\nname: \"12\"\npath: /x\nnames: one\nedges: [1, 2.5e0]\nfree: {k: v}\n"
                                "group: {count: 1e2, signed: 0, rate: 1, wait: 1.5h, size: 64KiB, color: blue}\n");
    assert_true(c.on);
    assert_int_equal(c.count, 100);
    assert_int_equal(c.signed_count, 0);
    assert_true(c.rate == 1);
    assert_int_equal(c.wait_ms, 5400000);
    assert_int_equal(c.size_bytes, 65536);
    assert_int_equal(c.color, 2);
    assert_string_equal(c.name, "12");
    assert_string_equal(c.path, "/x");
    assert_int_equal(c.names.count, 1);
    assert_string_equal(c.names.items[0], "one");
    assert_int_equal(c.edges.count, 2);
    assert_true(c.edges.items[1] == 2.5);
    assert_string_equal(yaml_get(c.free_form, "k")->text, "v");
}

static void null_means_the_default_or_none(void **state) {
    (void)state;
    struct config c =
        config_of("name: x\npath: ~\nmode: null\non:\ngroup: {count: null, wait: none, size: ~, color: }\nnames: ~\n");
    assert_false(c.on);
    assert_int_equal(c.count, 3);
    assert_int_equal(c.wait_ms, -1);
    assert_int_equal(c.size_bytes, -1);
    assert_int_equal(c.color, 1);
    assert_int_equal(c.names.count, 2);
    assert_null(c.path);
    assert_string_equal(c.mode, "auto"); /* NULL only where the default is */
    config_of("name: x\ngroup:\n");      /* an empty group */
    assert_refused("on: true\n", "t.yaml: name is missing; expected text (what it is called)");
    assert_refused("name:\n", "name is missing");
}

static void an_unknown_key_is_an_error_with_place_and_nearest_key(void **state) {
    (void)state;
    assert_refused("name: x\ngroup:\n  cuont: 3\n",
                   "t.yaml:3:3: unknown key 'group.cuont'; the nearest known key is 'group.count'");
    assert_refused("name: x\nkind: y\n",
                   "t.yaml:2:1: unknown key 'kind'; `brrctl keys` lists those of a job file, `brrd --help-config` the daemon's");
    assert_refused("name: x\nnmae: y\n", "t.yaml:2:1: unknown key 'nmae'; the nearest known key is 'name'");
    assert_refused("name: x\ncolor: red\n", "'group.color'"); /* right key, wrong place */
    assert_refused("name: x\ngruop: {count: 1}\n", "'group'");
    assert_refused("name: x\non: {deep: 1}\n", "t.yaml:2:1: on is 'a mapping'; expected true or false");
    assert_refused("name: x\ngroup: 3\n", "t.yaml:2:1: group is 3; expected keys below it");
    assert_refused("name: x\ngroup: [3]\n", "t.yaml:2:1: group is a list; expected keys below it");
    assert_refused("- a\n", "expected keys and values");
}

static void a_pattern_closes_its_brackets(void **state) {
    (void)state;
    static const char *const good[] = {"", "bed-7", "bed-*", "bed-[1-4]", "[]a]", "[!]]", "[^a]?", "\\[", "a]"},
                             *const bad[] = {"bed-[1", "[", "[]", "[!", "[!]", "a\\", "[a]["};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(options_is_pattern(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(options_is_pattern(bad[i]));
}

static void a_wrong_type_names_value_and_expectation(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"on: yes", "on is 'yes'; expected true or false"},
        {"on: \"true\"", "expected true or false"},
        {"group: {count: 1.5}", "group.count is '1.5'; expected a whole number"},
        {"group: {count: \"3\"}", "expected a whole number"},
        {"group: {count: [3]}", "group.count is 'a list'; expected a whole number"},
        {"group: {count: 0x10}", "expected a whole number"},
        {"group: {count: 1e30}", "expected a whole number"},
        {"group: {rate: fast}", "group.rate is 'fast'; expected a number"},
        {"group: {rate: nan}", "expected a number"},
        {"group: {wait: 5 minutes}", "expected a duration like 90s"},
        {"group: {wait: 30}", "group.wait is '30'; expected a duration like 90s"},
        {"group: {wait: -1s}", "expected a duration"},
        {"group: {size: 5MiBs}", "expected a size like 512MiB"},
        {"group: {color: purple}", "group.color is 'purple'; expected red|green|blue"},
        {"group: {color: re}", "expected red|green|blue"},
        {"group: {color: red|green}", "expected red|green|blue"},
        {"names: {a: b}", "names is 'a mapping'; expected a list"},
        {"names: [a, [b]]", "expected a list"},
        {"names: a, b", "names is 'a, b'; expected a list: [a, b]"},
        {"edges: 3", "edges is '3'; expected a list of numbers"},
        {"edges: [1, x]", "edges is 'x'; expected a list of numbers"},
        {"edges: [\"1\"]", "expected a list of numbers"},
        {"path: [a]", "path is 'a list'; expected text"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[200];
        assert_true(str_format(text, sizeof text, "name: x\n%s\n", cases[i][0]));
        assert_refused(text, cases[i][1]);
        assert_refused(text, "t.yaml:2:");
    }
}

static void a_value_out_of_range_names_the_range(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"group: {count: 0}", "group.count is 0; expected 1 to 100"},
        {"group: {count: 101}", "expected 1 to 100"},
        {"group: {signed: 1}", "expected -5 to 0"},
        {"group: {rate: -0.1}", "expected 0 to 1"},
        {"group: {wait: 999ms}", "group.wait is 999ms; expected at least 1000 ms"},
        {"group: {size: 2MiB}", "group.size is 2MiB; expected 1 to 1048576 bytes"},
        {"edges: [1, 11]", "edges is 11; expected 0 to 10"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[200];
        assert_true(str_format(text, sizeof text, "name: x\n%s\n", cases[i][0]));
        assert_refused(text, cases[i][1]);
    }
    assert_int_equal(config_of("name: x\ngroup: {count: 100, rate: 0, wait: 1s, size: 1MiB}\n").count, 100);
    assert_int_equal(config_of("name: x\ngroup: {wait: 1000d}\n").wait_ms, 86400000000); /* no upper limit */
}

static void assignments_override_the_file_and_their_errors_say_so(void **state) {
    (void)state;
    struct err err = {0};
    struct config c;
    struct yaml_node *root = tree_of("name: x\ngroup: {count: 7}\n");
    assert_int_equal(yaml_set(&arena, root, "group.count=8", &err), 0);
    assert_int_equal(yaml_set(&arena, root, "on=true", &err), 0);
    assert_int_equal(options_read(&table, root, "t.yaml", &arena, &c, &err), 0);
    assert_int_equal(c.count, 8);
    assert_true(c.on);
    assert_int_equal(yaml_set(&arena, root, "group.count=900", &err), 0);
    assert_int_equal(options_read(&table, root, "t.yaml", &arena, &c, &err), ERR_INVALID);
    assert_string_equal(err.message, "t.yaml: --set: group.count is 900; expected 1 to 100");
}

static void collect(void *ctx, const char *key, const char *help) { str_printf(ctx, "%s=%s;", key, help); }

static void old_keys_are_accepted_and_reported(void **state) {
    (void)state;
    struct str seen;
    str_init(&seen, 1000);
    struct yaml_node *root = tree_of("name: x\nold: {key: [whatever, {it: was}]}\n");
    struct config c;
    assert_int_equal(options_read(&table, root, "t.yaml", &arena, &c, NULL), 0);
    options_notices(&table, root, collect, &seen);
    assert_string_equal(str_cstr(&seen), "old.key=use group.count;");
    str_clear(&seen);
    options_notices(&table, tree_of("name: x\n"), collect, &seen);
    assert_string_equal(str_cstr(&seen), "");
    str_done(&seen);
}

static void the_printed_table_has_every_key_with_default_and_range(void **state) {
    (void)state;
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    assert_non_null(out);
    options_print(&table, out);
    fclose(out);
    for (size_t i = 0; i < table.count; i++)
        assert_int_equal(strstr(text, rows[i].help) != NULL, rows[i].type != OPTION_NOTICE);
    assert_non_null(strstr(text, "a whole number, 1 to 100; default 3\n"));
    assert_non_null(strstr(text, "a whole number, -5 to 0; default -1\n"));
    assert_non_null(strstr(text, "a duration like 90s, 15m or 24h, at least 1000 ms; default 90s\n"));
    assert_non_null(strstr(text, "text; required\n"));
    assert_non_null(strstr(text, "red|green|blue; default green\n"));
    free(text);
}

static void a_full_arena_is_an_error_not_a_crash(void **state) {
    (void)state;
    struct arena small;
    struct config c;
    struct err err = {0};
    struct yaml_node *root = tree_of("name: x\nedges: [1, 2, 3, 4, 5, 6, 7, 8, 9]\n");
    arena_init(&small, 32);
    assert_int_equal(options_read(&table, root, "t.yaml", &small, &c, &err), ERR_EXHAUSTED);
    assert_non_null(strstr(err.message, "too large"));
    arena_done(&small);
}

static void programs_get_each_row_as_json(void **state) {
    (void)state;
    for (size_t i = 0; i < table.count; i++) {
        const struct option *o = &rows[i];
        struct json *j = NULL;
        struct json_writer w;
        struct str text;
        if (o->type == OPTION_NOTICE)
            continue;
        str_init(&text, 4096);
        json_writer_init(&w, &text);
        json_begin_object(&w, NULL);
        options_put_json(o, &w);
        json_end(&w, '}');
        assert_int_equal(json_parse(str_cstr(&text), text.len, "row", &j, NULL), 0);
        bool required = !strcmp(o->name, "name");
        assert_string_equal(json_str(json_get(j, "key"), ""), o->name);
        assert_string_equal(json_str(json_get(j, "meaning"), ""), o->help);
        assert_true(json_bool(json_get(j, "required"), !required) == required);
        assert_int_equal(json_kind(json_get(j, "default")) == JSON_KIND_NULL, required);
        assert_true(*json_str(json_get(j, "accepts"), "") != '\0');
        if (o->type == OPTION_ENUM)
            assert_non_null(strstr(json_str(json_get(j, "accepts"), ""), "blue"));
        json_free(j);
        str_done(&text);
    }
}

#define in_arena(test) cmocka_unit_test_setup_teardown(test, make_arena, free_arena)

int main(void) {
    const struct CMUnitTest tests[] = {
        in_arena(what_is_absent_has_its_default),       in_arena(every_type_reads_what_is_given),
        in_arena(null_means_the_default_or_none),       in_arena(an_unknown_key_is_an_error_with_place_and_nearest_key),
        in_arena(a_pattern_closes_its_brackets),        in_arena(a_wrong_type_names_value_and_expectation),
        in_arena(a_value_out_of_range_names_the_range), in_arena(assignments_override_the_file_and_their_errors_say_so),
        in_arena(old_keys_are_accepted_and_reported),   in_arena(the_printed_table_has_every_key_with_default_and_range),
        in_arena(a_full_arena_is_an_error_not_a_crash), cmocka_unit_test(programs_get_each_row_as_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
