/* SPDX-License-Identifier: Apache-2.0
   Copyright The Windows Instance API Authors. */

/* pdh.dll in place of Wine's, which has no counter "\Process(_Total)\Working Set - Private":
   without it the kubelet ends. Here every counter exists and has one instance with one value
   that never changes. */

#include <windows.h>

#define EXPORT(name) __declspec(dllexport) LONG WINAPI name

#define PDH_MORE_DATA ((LONG)0x800007D2)
#define PDH_CSTATUS_INVALID_DATA ((LONG)0xC0000BBA)

typedef struct {
	const wchar_t *name;
	DWORD status;
	double value;
} counter_item; /* PDH_FMT_COUNTERVALUE_ITEM_W with a double */

int _fltused; /* the linker wants it where floating point is used */

static LONG any_handle(HANDLE *handle)
{
	*handle = (HANDLE)1;
	return 0;
}

EXPORT(PdhOpenQuery)(LPCWSTR source, DWORD_PTR data, HANDLE *query) { return any_handle(query); }
EXPORT(PdhAddCounterW)(HANDLE query, LPCWSTR path, DWORD_PTR data, HANDLE *counter) { return any_handle(counter); }
EXPORT(PdhAddEnglishCounterW)(HANDLE query, LPCWSTR path, DWORD_PTR data, HANDLE *counter) { return any_handle(counter); }
EXPORT(PdhCloseQuery)(HANDLE query) { return 0; }
EXPORT(PdhCollectQueryData)(HANDLE query) { return 0; }
EXPORT(PdhValidatePathW)(LPCWSTR path) { return 0; }

EXPORT(PdhGetFormattedCounterValue)(HANDLE counter, DWORD format, DWORD *type, counter_item *value)
{
	return PDH_CSTATUS_INVALID_DATA;
}

EXPORT(PdhGetFormattedCounterArrayW)(HANDLE counter, DWORD format, DWORD *size, DWORD *count, counter_item *items)
{
	static const wchar_t total[] = L"_Total";
	*count = 1;
	if (*size < sizeof *items) {
		*size = sizeof *items;
		return PDH_MORE_DATA;
	}
	items->name = total;
	items->status = 0;
	items->value = 1.0;
	return 0;
}

BOOL WINAPI DllMainCRTStartup(HINSTANCE instance, DWORD reason, LPVOID reserved)
{
	return TRUE;
}
