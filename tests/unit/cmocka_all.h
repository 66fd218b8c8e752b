/* cmocka_all: cmocka and the headers it wants in front of it. */
#pragma once
#include "base/base.h"
#include <setjmp.h>

#include <cmocka.h>
