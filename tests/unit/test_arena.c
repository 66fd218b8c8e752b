#include "unit/cmocka_all.h"

#include "base/arena.h"

static void blocks_are_zeroed_aligned_and_apart(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 15, 16, 17, 1000, 20000, 3, 16384, 100000, 5};
    enum { N = sizeof sizes / sizeof *sizes };
    unsigned char *at[N];
    struct arena a;
    arena_init(&a, 1 << 20);
    for (size_t i = 0; i < N; i++) {
        assert_non_null(at[i] = arena_alloc(&a, sizes[i]));
        assert_int_equal((uintptr_t)at[i] % 16, 0);
        for (size_t k = 0; k < sizes[i]; k++)
            assert_int_equal(at[i][k], 0);
        memset(at[i], (int)i + 1, sizes[i]);
    }
    for (size_t i = 0; i < N; i++)
        for (size_t k = 0; k < sizes[i]; k++)
            assert_int_equal(at[i][k], i + 1);
    arena_done(&a);
}

static void the_limit_holds_and_what_was_given_stays(void **state) {
    (void)state;
    struct arena a;
    arena_init(&a, 64);
    char *first = arena_strdup(&a, "kept");
    assert_non_null(first);
    assert_null(arena_alloc(&a, 64));
    assert_non_null(arena_alloc(&a, 48));
    assert_int_equal(a.used_bytes, 64);
    assert_null(arena_alloc(&a, 1));
    assert_string_equal(first, "kept");
    arena_done(&a);
}

static void absurd_sizes_are_refused_even_without_a_limit(void **state) {
    (void)state;
    struct arena a;
    arena_init(&a, SIZE_MAX);
    assert_null(arena_alloc(&a, SIZE_MAX));
    assert_null(arena_alloc(&a, SIZE_MAX - 20));
    assert_null(arena_strndup(&a, "", SIZE_MAX));
    assert_non_null(arena_alloc(&a, 1));
    arena_done(&a);
}

static void done_empties_it_for_another_use(void **state) {
    (void)state;
    struct arena a;
    arena_init(&a, 4096);
    for (int round = 0; round < 3; round++) {
        assert_non_null(arena_alloc(&a, 4000));
        assert_null(arena_alloc(&a, 4000));
        arena_done(&a);
        assert_int_equal(a.used_bytes, 0);
    }
}

static void reset_keeps_the_memory_that_was_used(void **state) {
    (void)state;
    struct arena a;
    arena_init(&a, 1 << 20);
    unsigned char *small = arena_alloc(&a, 100), *large = arena_alloc(&a, 200000);
    memset(small, 1, 100);
    memset(large, 1, 200000);
    arena_reset(&a);
    assert_int_equal(a.used_bytes, 0);
    assert_ptr_equal(arena_alloc(&a, 100), small);
    unsigned char *again = arena_alloc(&a, 180000); /* in steps that double */
    assert_ptr_equal(again, large);
    for (int i = 0; i < 180000; i++)
        assert_int_equal(again[i], 0);
    arena_reset(&a);
    assert_ptr_equal(arena_alloc(&a, 100), small); /* not the large block for so little */
    arena_reset(&a);
    assert_ptr_equal(arena_alloc(&a, 100), small);
    assert_null(a.spare); /* the large one, which was not used in between, is given back */
    arena_done(&a);
}

static void text_is_copied_and_formatted(void **state) {
    (void)state;
    struct arena a;
    char source[] = "abcdef";
    arena_init(&a, 1 << 16);
    char *cut = arena_strndup(&a, source, 3), *whole = arena_strdup(&a, source);
    source[0] = 'X';
    assert_string_equal(cut, "abc");
    assert_string_equal(whole, "abcdef");
    assert_string_equal(arena_printf(&a, "%s-%d", whole, 42), "abcdef-42");
    assert_string_equal(arena_printf(&a, "%s", ""), "");
    assert_int_equal(strlen(arena_printf(&a, "%5000d", 1)), 5000);
    arena_done(&a);
    arena_init(&a, 16);
    assert_null(arena_printf(&a, "%100d", 1));
    arena_done(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_zeroed_aligned_and_apart),           cmocka_unit_test(the_limit_holds_and_what_was_given_stays),
        cmocka_unit_test(absurd_sizes_are_refused_even_without_a_limit), cmocka_unit_test(done_empties_it_for_another_use),
        cmocka_unit_test(reset_keeps_the_memory_that_was_used),          cmocka_unit_test(text_is_copied_and_formatted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
