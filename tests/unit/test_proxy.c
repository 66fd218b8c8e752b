#include "client/proxy.h"

#include "unit/cmocka_all.h"

static void lists_have_names_networks_and_everything(void **state) {
    static const struct {
        const char *endpoint, *list;
        bool excepted;
    } cases[] = {{"eeg.lab:7443", "eeg.lab", true},
                 {"EEG.lab:7443", "other, .eeg.lab", true},
                 {"bed.eeg.lab:7443", "eeg.lab", true},
                 {"bed.eeg.lab:7443", "*.eeg.lab", true},
                 {"notmyeeg.lab:7443", "eeg.lab", false},
                 {"eeg.lab:7443", "*", true},
                 {"eeg.lab:7443", "", false},
                 {"10.1.2.3:7443", "10.0.0.0/8", true},
                 {"11.1.2.3:7443", "10.0.0.0/8", false},
                 {"10.0.0.130:1", "10.0.0.128/25", true},
                 {"10.0.0.120:1", "10.0.0.128/25", false},
                 {"10.1.2.3:7443", "10.1.2.3", true},
                 {"10.1.2.3:7443", "10.1.2.3:7443", true},
                 {"[fd00::1]:7443", "fd00::/8", true},
                 {"[fe80::1]:7443", "fd00::/8", false},
                 {"10.1.2.3:7443", "10.0.0.0/99,10.0.0.0/x", false},
                 {"unix:/run/brrd/brrd.sock", "", true},
                 {"eeg.lab:7443", ",, ,other", false},
                 {"eeg.lab:7443", "eeg.lab:7443", true}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (proxy_is_excepted(cases[i].endpoint, cases[i].list) != cases[i].excepted)
            fail_msg("%s in '%s'", cases[i].endpoint, cases[i].list);
}

static void a_daemon_of_this_machine_is_reached_directly(void **state) {
    static const char *const own[] = {"127.0.0.1:7443", "localhost:7443", "[::1]:7443", "127.1.2.3:7443",
                                      "unix:/run/brrd/brrd.sock"};
    (void)state;
    setenv("http_proxy", "http://proxy:3128", 1);
    unsetenv("NO_PROXY");
    unsetenv("no_proxy");
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        assert_null(proxy_of(own[i]));
    assert_string_equal(proxy_of("eeg.lab:7443"), "http://proxy:3128");
    setenv("https_proxy", "http://other:3128", 1);
    assert_string_equal(proxy_of("eeg.lab:7443"), "http://other:3128");
    setenv("NO_PROXY", "10.0.0.0/8,lab", 1);
    assert_null(proxy_of("eeg.lab:7443"));
    assert_non_null(proxy_of("eeg.example:7443"));
    unsetenv("http_proxy");
    unsetenv("https_proxy");
    assert_null(proxy_of("eeg.example:7443"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_have_names_networks_and_everything),
        cmocka_unit_test(a_daemon_of_this_machine_is_reached_directly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
