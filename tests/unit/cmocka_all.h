/* cmocka_all: cmocka and the headers it wants in front of it. */
#ifndef BRR_TESTS_CMOCKA_ALL_H
#define BRR_TESTS_CMOCKA_ALL_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#endif
