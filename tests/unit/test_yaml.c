#include "unit/cmocka_all.h"

#include "base/yaml.h"

static struct arena arena;

static int make_arena(void **state) {
    (void)state;
    arena_init(&arena, 8 << 20);
    return 0;
}

static int free_arena(void **state) {
    (void)state;
    arena_done(&arena);
    return 0;
}

static struct yaml_node *parsed(const char *text) {
    struct yaml_node *root = NULL;
    struct err err = {0};
    if (yaml_parse(&arena, text, strlen(text), "t.yaml", &root, &err))
        fail_msg("%s", err.message);
    assert_non_null(root);
    return root;
}

static void assert_refused(const char *text, const char *why) {
    struct yaml_node *root = NULL;
    struct err err = {0};
    assert_int_equal(yaml_parse(&arena, text, strlen(text), "t.yaml", &root, &err), ERR_INVALID);
    assert_null(root);
    if (!strstr(err.message, why))
        fail_msg("'%s' is not in: %s", why, err.message);
}

static void assert_at(const struct yaml_node *node, int line, int column) {
    assert_non_null(node);
    assert_int_equal(node->line, line);
    assert_int_equal(node->column, column);
}

static void every_node_knows_its_place_and_its_key_s(void **state) {
    (void)state;
    struct yaml_node *root =
        parsed("# comment\nkind: train\ndata:\n  source: \"x y\"\n  list: [1, two]\n  more:\n    - a\n    - b: c\n");
    assert_int_equal(root->type, YAML_MAPPING);
    assert_at(root, 2, 1);
    assert_at(yaml_get(root, "kind"), 2, 7);
    const struct yaml_node *source = yaml_path(root, "data.source"), *list = yaml_path(root, "data.list");
    assert_at(source, 4, 11);
    assert_int_equal(source->key_line, 4);
    assert_int_equal(source->key_column, 3);
    assert_string_equal(source->text, "x y");
    assert_true(source->quoted && !yaml_get(root, "kind")->quoted);
    assert_int_equal(list->type, YAML_SEQUENCE);
    assert_at(list->child, 5, 10);
    assert_at(list->child->next, 5, 13);
    assert_string_equal(list->child->next->text, "two");
    assert_null(list->child->next->next);
    assert_null(list->child->key);
    const struct yaml_node *second = yaml_path(root, "data.more")->child->next;
    assert_int_equal(second->type, YAML_MAPPING);
    assert_at(yaml_get(second, "b"), 8, 10);
    assert_string_equal(yaml_get(second, "b")->text, "c");
}

static void paths_find_nodes_and_nothing_else(void **state) {
    (void)state;
    struct yaml_node *root = parsed("a: {b: {c: 1}}\nl: [x]\n");
    assert_string_equal(yaml_path(root, "a.b.c")->text, "1");
    static const char *const none[] = {"", ".", "a.", "a.b.", ".a", "a..b", "a.x", "a.b.c.d", "l.x", "b"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_null(yaml_path(root, none[i]));
    char longer[300];
    memset(longer, 'a', 299);
    longer[299] = '\0';
    assert_null(yaml_path(root, longer));
    assert_null(yaml_get(NULL, "a"));
    assert_null(yaml_get(yaml_get(root, "l"), "a"));
}

static void an_empty_document_is_an_empty_mapping(void **state) {
    (void)state;
    static const char *const empty[] = {"", "\n\n", "# only a comment\n", "---\n", "~", "null\n", "---\n...\n"};
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++) {
        struct yaml_node *root = parsed(empty[i]);
        assert_int_equal(root->type, YAML_MAPPING);
        assert_null(root->child);
    }
    assert_int_equal(parsed("\"\"")->type, YAML_SCALAR); /* quoted: text, not nothing */
}

static void null_is_unquoted(void **state) {
    (void)state;
    struct yaml_node *root = parsed("a:\nb: ~\nc: null\nd: \"null\"\ne: ''\nf: none\ng: []\nh: Null\n");
    static const struct {
        const char *key;
        bool null;
    } cases[] = {{"a", true}, {"b", true}, {"c", true}, {"d", false}, {"e", false}, {"f", false}, {"g", false}, {"h", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(yaml_is_null(yaml_get(root, cases[i].key)), cases[i].null);
}

static void a_key_given_twice_is_refused_at_the_second(void **state) {
    (void)state;
    assert_refused("a: 1\nb:\n  c: 1\n  d: 2\n  c: 3\n", "t.yaml:5:3: key 'c' appears twice");
    assert_refused("{x: 1, \"x\": 2}", "t.yaml:1:8: key 'x' appears twice");
    parsed("a: {c: 1}\nb: {c: 1}\n"); /* in two mappings */
}

static void what_hides_meaning_is_refused_by_name_and_place(void **state) {
    (void)state;
    assert_refused("a: &x 1\nb: 2\n", "t.yaml:1:4: anchors are not accepted");
    assert_refused("a: &x [1]\n", "anchors are not accepted");
    assert_refused("a: &x {b: 1}\n", "anchors are not accepted");
    assert_refused("a: 1\nb: *x\n", "t.yaml:2:4");
    assert_refused("a: !!int 1\n", "t.yaml:1:4: tags are not accepted");
    assert_refused("a: !x [1]\n", "tags are not accepted");
    assert_refused("a: 1\n---\nb: 1\n", "t.yaml:2:1: only one document");
    assert_refused("? [a]\n: 1\n", "a key must be plain text");
    assert_refused("a: \"x\\0y\"\n", "t.yaml:1:4: a NUL character");
    assert_refused("a: [1\nb: 2\n", "t.yaml:2:");
    assert_refused("a: b: c\n", "t.yaml:1:5");
    assert_refused("a: 1\nb: 2\n\xff: 3\n", "t.yaml:3:1");
}

static void depth_and_number_of_keys_are_bounded(void **state) {
    (void)state;
    char deep[80] = "";
    memset(deep, '[', 32);
    memset(deep + 32, ']', 32);
    parsed(deep);
    memset(deep, '[', 34);
    memset(deep + 34, ']', 34);
    assert_refused(deep, "nested too deeply");
    struct str many;
    str_init(&many, 1 << 20);
    for (int i = 0; i < 10000; i++)
        str_printf(&many, "k%d: 1\n", i);
    parsed(str_cstr(&many));
    str_puts(&many, "last: 1\n");
    assert_refused(str_cstr(&many), "t.yaml:10001:1: more than 10000 keys");
    str_done(&many);
}

/* Comparisons of texts while a mapping of n keys is parsed: the work that a large job file costs. */
static int64_t comparisons;
int __wrap_strcmp(const char *a, const char *b);
int __real_strcmp(const char *a, const char *b);
int __wrap_strcmp(const char *a, const char *b) {
    comparisons++;
    return __real_strcmp(a, b);
}

static int64_t comparisons_of(int n) {
    struct str text;
    str_init(&text, 1 << 20);
    for (int i = 0; i < n; i++)
        str_printf(&text, "key%d: 1\n", i);
    comparisons = 0;
    parsed(str_cstr(&text));
    str_done(&text);
    return comparisons;
}

static void the_work_grows_with_the_number_of_keys(void **state) {
    (void)state;
    assert_true(comparisons_of(100) < 100 * 20);
    assert_true(comparisons_of(10000) < 10000 * 20);
}

static void a_document_larger_than_the_arena_is_refused(void **state) {
    (void)state;
    struct arena small;
    struct yaml_node *root = NULL;
    struct err err = {0};
    arena_init(&small, 1024);
    static const char text[] = "[a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]";
    assert_int_equal(yaml_parse(&small, text, strlen(text), "t.yaml", &root, &err), ERR_EXHAUSTED);
    assert_null(root);
    assert_non_null(strstr(err.message, "too large"));
    arena_done(&small);
}

static void assignments_replace_add_and_make_what_is_on_the_way(void **state) {
    (void)state;
    struct err err = {0};
    struct yaml_node *root = parsed("a: 1\nb:\nc: {d: 2, e: 3}\n");
    static const char *const sets[] = {"a=10", "b.x.y=[1, two]", "c.d={z: q}", "n=\"007\"", "c.f=", "g=a=b", "a=11"};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if (yaml_set(&arena, root, sets[i], &err))
            fail_msg("%s: %s", sets[i], err.message);
    assert_string_equal(yaml_path(root, "a")->text, "11");
    assert_int_equal(yaml_path(root, "a")->line, 0); /* a place that says "command line" */
    assert_string_equal(yaml_path(root, "b.x.y")->child->next->text, "two");
    assert_string_equal(yaml_path(root, "c.d.z")->text, "q");
    assert_string_equal(yaml_path(root, "c.e")->text, "3");
    assert_string_equal(yaml_path(root, "n")->text, "007");
    assert_true(yaml_path(root, "n")->quoted);
    assert_true(yaml_is_null(yaml_path(root, "c.f")));
    assert_string_equal(yaml_path(root, "g")->text, "a=b");
    assert_string_equal(root->child->text, "11"); /* its old place among the keys */
    int n = 0;
    for (const struct yaml_node *c = root->child; c; c = c->next)
        n++;
    assert_int_equal(n, 5);
}

static void broken_assignments_are_refused_and_change_nothing(void **state) {
    (void)state;
    struct yaml_node *root = parsed("a: 1\nb: [2]\n");
    static const char *const bad[] = {"a",    "=1",   "a.b=1",       "b.c=1", ".x=1",  "x..y=1",
                                      "x.=1", "a=[1", "a=# nothing", "a=*x",  "a=&x 1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct err err = {0};
        assert_int_equal(yaml_set(&arena, root, bad[i], &err), ERR_INVALID);
        assert_non_null(strstr(err.message, "--set"));
    }
    assert_string_equal(yaml_path(root, "a")->text, "1");
    assert_string_equal(yaml_path(root, "b")->child->text, "2");
}

#define in_arena(test) cmocka_unit_test_setup_teardown(test, make_arena, free_arena)

int main(void) {
    const struct CMUnitTest tests[] = {
        in_arena(every_node_knows_its_place_and_its_key_s),
        in_arena(paths_find_nodes_and_nothing_else),
        in_arena(an_empty_document_is_an_empty_mapping),
        in_arena(null_is_unquoted),
        in_arena(a_key_given_twice_is_refused_at_the_second),
        in_arena(what_hides_meaning_is_refused_by_name_and_place),
        in_arena(depth_and_number_of_keys_are_bounded),
        in_arena(the_work_grows_with_the_number_of_keys),
        in_arena(a_document_larger_than_the_arena_is_refused),
        in_arena(assignments_replace_add_and_make_what_is_on_the_way),
        in_arena(broken_assignments_are_refused_and_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
