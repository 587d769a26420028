/* SPDX-License-Identifier: Apache-2.0
   Copyright The Windows Instance API Authors. */

/* dismapi.dll, which Wine has not: the optional features of the running system.

   The features that there are are values of the registry key below, whose data is the state as
   dismapi.h numbers it. A feature that is enabled becomes Installed at once, and has a volatile
   subkey until the host boots: as long as that is there, it says of itself that it is pending. */

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#define EXPORT __declspec(dllexport)

static const WCHAR features[] = L"Software\\Winhost\\Features";

/* Of dismapi.h. */
#define STATE_INSTALLED 4
#define STATE_INSTALL_PENDING 5
#define ONLINE_IMAGE L"DISM_{53BFAE52-B167-4E2F-A258-0A37B57FF845}"

/* Of winerror.h and cbsmsg.h. */
#define NOT_INITIALIZED ((HRESULT)0xC0040001)
#define UNKNOWN_FEATURE ((HRESULT)0x800F080C)

/* DismFeatureInfo */
#pragma pack(push, 1)
struct feature_info {
	PCWSTR name;
	UINT state;
	PCWSTR display_name, description;
	UINT restart_required;
	void *properties;
	UINT property_count;
};
#pragma pack(pop)

static LONG initialized, sessions;

static HRESULT failure(LONG code) { return code ? HRESULT_FROM_WIN32(code) : S_OK; }

/* open_feature returns the state of a feature that there is, and the key that has it. */
static HRESULT open_feature(UINT session, PCWSTR name, HKEY *key, DWORD *state)
{
	DWORD size = sizeof *state;
	HKEY pending;

	if (!initialized)
		return NOT_INITIALIZED;
	if (!session || !name)
		return E_INVALIDARG;
	if (RegOpenKeyExW(HKEY_LOCAL_MACHINE, features, 0, KEY_ALL_ACCESS, key))
		return UNKNOWN_FEATURE;
	if (RegGetValueW(*key, NULL, name, RRF_RT_REG_DWORD, NULL, state, &size)) {
		RegCloseKey(*key);
		return UNKNOWN_FEATURE;
	}
	if (!RegOpenKeyExW(*key, name, 0, KEY_READ, &pending)) {
		RegCloseKey(pending);
		*state = STATE_INSTALL_PENDING;
	}
	return S_OK;
}

EXPORT HRESULT WINAPI DismInitialize(int level, PCWSTR log, PCWSTR scratch)
{
	return InterlockedExchange(&initialized, 1) ? S_FALSE : S_OK;
}

EXPORT HRESULT WINAPI DismShutdown(void) { return InterlockedExchange(&initialized, 0) ? S_OK : NOT_INITIALIZED; }

EXPORT HRESULT WINAPI DismOpenSession(PCWSTR image, PCWSTR windows, PCWSTR drive, UINT *session)
{
	if (!initialized)
		return NOT_INITIALIZED;
	if (!session || !image || lstrcmpW(image, ONLINE_IMAGE))
		return E_INVALIDARG;
	*session = InterlockedIncrement(&sessions);
	return S_OK;
}

EXPORT HRESULT WINAPI DismCloseSession(UINT session) { return session ? S_OK : E_INVALIDARG; }

EXPORT HRESULT WINAPI DismGetFeatureInfo(UINT session, PCWSTR name, PCWSTR identifier, int kind, struct feature_info **out)
{
	struct feature_info *info;
	DWORD state;
	WCHAR *copy;
	HKEY key;
	HRESULT hr = open_feature(session, name, &key, &state);

	if (FAILED(hr))
		return hr;
	RegCloseKey(key);
	info = HeapAlloc(GetProcessHeap(), HEAP_ZERO_MEMORY, sizeof *info + (lstrlenW(name) + 1) * sizeof *copy);
	if (!info)
		return E_OUTOFMEMORY;
	copy = (WCHAR *)(info + 1);
	lstrcpyW(copy, name);
	info->name = info->display_name = info->description = copy;
	info->state = state;
	*out = info;
	return S_OK;
}

EXPORT HRESULT WINAPI DismEnableFeature(UINT session, PCWSTR name, PCWSTR identifier, int kind, BOOL limit, PCWSTR *sources,
	UINT count, BOOL all, HANDLE cancel, void *progress, void *data)
{
	DWORD state, installed = STATE_INSTALLED;
	HKEY key, pending;
	HRESULT hr = open_feature(session, name, &key, &state);

	if (FAILED(hr))
		return hr;
	if (state != STATE_INSTALLED && state != STATE_INSTALL_PENDING) {
		hr = failure(RegSetValueExW(key, name, 0, REG_DWORD, (BYTE *)&installed, sizeof installed));
		if (SUCCEEDED(hr))
			hr = failure(RegCreateKeyExW(key, name, 0, NULL, REG_OPTION_VOLATILE, KEY_WRITE, NULL, &pending, NULL));
		if (SUCCEEDED(hr)) {
			RegCloseKey(pending);
			hr = failure(RegFlushKey(key));
		}
		/* A success, and not an HRESULT. */
		if (SUCCEEDED(hr))
			hr = ERROR_SUCCESS_REBOOT_REQUIRED;
	}
	RegCloseKey(key);
	return hr;
}

EXPORT HRESULT WINAPI DismDelete(void *structure)
{
	return HeapFree(GetProcessHeap(), 0, structure) ? S_OK : E_INVALIDARG;
}

BOOL WINAPI DllMainCRTStartup(HINSTANCE instance, DWORD reason, LPVOID reserved) { return TRUE; }
