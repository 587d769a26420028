/* SPDX-License-Identifier: Apache-2.0
   Copyright The Windows Instance API Authors. */

/* firewallapi.dll: the COM classes HNetCfg.FwPolicy2 and HNetCfg.FWRule (netfw.h), which Wine
   has in its hnetcfg.dll without any effect. Nothing is filtered; rules are kept where Windows
   keeps them, and in its form:

     v2.31|Action=Allow|Active=TRUE|Dir=In|Protocol=6|LPort=10250|Name=a rule|Desc=for a port|

   Of INetFwPolicy2 there is get_Rules. Of INetFwRules there are get_Count, Add, Remove and Item.
   INetFwRule has the properties of rules for ports; one that Item returned is a copy, so that
   changing it changes nothing. All else is E_NOTIMPL. */

#define COBJMACROS
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#include <oleauto.h>

#define EXPORT __declspec(dllexport)

BOOLEAN WINAPI SystemFunction036(PVOID buf, ULONG len); /* advapi32: RtlGenRandom */

static const WCHAR rules_key[] = L"System\\CurrentControlSet\\Services\\SharedAccess\\Parameters\\FirewallPolicy\\FirewallRules";

static const GUID iid_unknown = {0x00000000, 0x0000, 0x0000, {0xc0, 0, 0, 0, 0, 0, 0, 0x46}};
static const GUID iid_dispatch = {0x00020400, 0x0000, 0x0000, {0xc0, 0, 0, 0, 0, 0, 0, 0x46}};
static const GUID iid_class_factory = {0x00000001, 0x0000, 0x0000, {0xc0, 0, 0, 0, 0, 0, 0, 0x46}};
static const GUID clsid_policy2 = {0xe2b3c97f, 0x6ae1, 0x41ac, {0x81, 0x7a, 0xf6, 0xf9, 0x21, 0x66, 0xd7, 0xdd}};
static const GUID iid_policy2 = {0x98325047, 0xc671, 0x4174, {0x8d, 0x81, 0xde, 0xfc, 0xd3, 0xf0, 0x31, 0x86}};
static const GUID clsid_rule = {0x2c5bc43e, 0x3369, 0x4c33, {0xab, 0x0c, 0xbe, 0x94, 0x69, 0x67, 0x7a, 0xf4}};
static const GUID iid_rule = {0xaf230d27, 0xbaba, 0x4e42, {0xac, 0xed, 0xf5, 0x24, 0xf2, 0x2c, 0xfc, 0xe2}};
static const GUID iid_rules = {0x9c4c6277, 0x5027, 0x441e, {0xaf, 0xae, 0xca, 0x1f, 0x54, 0x2d, 0xa0, 0x09}};

/* Of netfw.h and icftypes.h. */
#define PROTOCOL_TCP 6
#define PROTOCOL_UDP 17
#define PROTOCOL_ANY 256
#define DIRECTION_IN 1
#define DIRECTION_OUT 2
#define ACTION_BLOCK 0
#define ACTION_ALLOW 1
#define PROFILES_ALL 0x7fffffff

/* There is no C library here: the volatile keeps the compiler from calling memcmp. */
static BOOL same_guid(const GUID *a, const GUID *b)
{
	const volatile BYTE *x = (const volatile BYTE *)a, *y = (const volatile BYTE *)b;
	int i;

	for (i = 0; i < (int)sizeof *a; i++)
		if (x[i] != y[i])
			return FALSE;
	return TRUE;
}

#define LINE 1024    /* a rule in the registry */
#define MAX_TEXT 256 /* one of its texts */

/* object is all there is: what it is says its methods. */
struct object {
	const void *const *methods;
	const GUID *iid, *class; /* class: of what a class factory makes */
	LONG references;
	/* of a rule */
	WCHAR name[MAX_TEXT], description[MAX_TEXT], ports[MAX_TEXT];
	LONG protocol, direction, action, profiles;
	VARIANT_BOOL enabled;
};

static HRESULT make(const GUID *iid, const GUID *class, struct object **out);

static HRESULT WINAPI query_interface(struct object *o, REFIID iid, void **out)
{
	*out = NULL;
	if (!same_guid(iid, &iid_unknown) && !same_guid(iid, o->iid) &&
	    (same_guid(o->iid, &iid_class_factory) || !same_guid(iid, &iid_dispatch)))
		return E_NOINTERFACE;
	InterlockedIncrement(&o->references);
	*out = o;
	return S_OK;
}

static ULONG WINAPI add_ref(struct object *o) { return InterlockedIncrement(&o->references); }

static ULONG WINAPI release(struct object *o)
{
	ULONG left = InterlockedDecrement(&o->references);

	if (!left)
		HeapFree(GetProcessHeap(), 0, o);
	return left;
}

/* On amd64 the caller takes its arguments off the stack, whatever they are. */
static HRESULT WINAPI not_implemented(struct object *o) { return E_NOTIMPL; }

/* INetFwRule */

static HRESULT get_text(const WCHAR *from, BSTR *to)
{
	*to = SysAllocString(from);
	return *to ? S_OK : E_OUTOFMEMORY;
}

/* The registry separates by bars, and so no text has one. */
static HRESULT put_text(WCHAR *to, BSTR from)
{
	const WCHAR *p;

	if (lstrlenW(from) >= MAX_TEXT)
		return E_INVALIDARG;
	for (p = from; p && *p; p++)
		if (*p == '|')
			return E_INVALIDARG;
	lstrcpyW(to, from ? from : L"");
	return S_OK;
}

static HRESULT WINAPI get_name(struct object *o, BSTR *out) { return get_text(o->name, out); }
static HRESULT WINAPI put_name(struct object *o, BSTR in) { return in && *in ? put_text(o->name, in) : E_INVALIDARG; }
static HRESULT WINAPI get_description(struct object *o, BSTR *out) { return get_text(o->description, out); }
static HRESULT WINAPI put_description(struct object *o, BSTR in) { return put_text(o->description, in); }
static HRESULT WINAPI get_protocol(struct object *o, LONG *out) { *out = o->protocol; return S_OK; }
static HRESULT WINAPI get_ports(struct object *o, BSTR *out) { return get_text(o->ports, out); }
static HRESULT WINAPI get_direction(struct object *o, LONG *out) { *out = o->direction; return S_OK; }
static HRESULT WINAPI get_enabled(struct object *o, VARIANT_BOOL *out) { *out = o->enabled; return S_OK; }
static HRESULT WINAPI put_enabled(struct object *o, VARIANT_BOOL in) { o->enabled = in; return S_OK; }
static HRESULT WINAPI get_profiles(struct object *o, LONG *out) { *out = o->profiles; return S_OK; }
static HRESULT WINAPI get_action(struct object *o, LONG *out) { *out = o->action; return S_OK; }

static HRESULT WINAPI put_protocol(struct object *o, LONG in)
{
	if (in < 0 || in > PROTOCOL_ANY)
		return E_INVALIDARG;
	o->protocol = in;
	return S_OK;
}

/* As on Windows, only protocols that have ports take them. */
static HRESULT WINAPI put_ports(struct object *o, BSTR in)
{
	return o->protocol == PROTOCOL_TCP || o->protocol == PROTOCOL_UDP ? put_text(o->ports, in) : E_INVALIDARG;
}

static HRESULT WINAPI put_direction(struct object *o, LONG in)
{
	if (in != DIRECTION_IN && in != DIRECTION_OUT)
		return E_INVALIDARG;
	o->direction = in;
	return S_OK;
}

/* Rules for some of the profiles are not needed. */
static HRESULT WINAPI put_profiles(struct object *o, LONG in) { return in == PROFILES_ALL ? S_OK : E_NOTIMPL; }

static HRESULT WINAPI put_action(struct object *o, LONG in)
{
	if (in != ACTION_BLOCK && in != ACTION_ALLOW)
		return E_INVALIDARG;
	o->action = in;
	return S_OK;
}

/* Rules in the registry */

static WCHAR *append(WCHAR *to, const WCHAR *from)
{
	lstrcpyW(to, from);
	return to + lstrlenW(to);
}

static WCHAR *append_number(WCHAR *to, LONG n)
{
	WCHAR digits[12];
	int i = 11;

	digits[i] = 0;
	do
		digits[--i] = '0' + n % 10;
	while (n /= 10);
	return append(to, digits + i);
}

static BOOL format_rule(const struct object *o, WCHAR *line)
{
	WCHAR *p = line;

	if (lstrlenW(o->name) + lstrlenW(o->description) + lstrlenW(o->ports) > LINE - 128)
		return FALSE;
	p = append(p, o->action == ACTION_ALLOW ? L"v2.31|Action=Allow" : L"v2.31|Action=Block");
	p = append(p, o->enabled ? L"|Active=TRUE" : L"|Active=FALSE");
	p = append(p, o->direction == DIRECTION_IN ? L"|Dir=In" : L"|Dir=Out");
	if (o->protocol != PROTOCOL_ANY)
		p = append_number(append(p, L"|Protocol="), o->protocol);
	if (*o->ports)
		p = append(append(p, L"|LPort="), o->ports);
	p = append(append(p, L"|Name="), o->name);
	if (*o->description)
		p = append(append(p, L"|Desc="), o->description);
	append(p, L"|");
	return TRUE;
}

/* value_of returns what follows "KEY=" at p, or NULL if there is another key. */
static WCHAR *value_of(WCHAR *p, const WCHAR *key)
{
	for (; *key; key++, p++)
		if (*p != *key)
			return NULL;
	return *p == '=' ? p + 1 : NULL;
}

static LONG number(const WCHAR *p)
{
	LONG n = 0;

	for (; *p >= '0' && *p <= '9'; p++)
		n = n * 10 + *p - '0';
	return n;
}

/* parse_rule takes its line apart. */
static void parse_rule(struct object *o, WCHAR *line)
{
	WCHAR *p = line, *next, *v;

	o->enabled = VARIANT_FALSE;
	o->protocol = PROTOCOL_ANY;
	for (; *p; p = next) {
		for (next = p; *next && *next != '|'; next++)
			;
		if (*next)
			*next++ = 0;
		if ((v = value_of(p, L"Action")))
			o->action = lstrcmpW(v, L"Allow") ? ACTION_BLOCK : ACTION_ALLOW;
		else if ((v = value_of(p, L"Active")))
			o->enabled = lstrcmpW(v, L"TRUE") ? VARIANT_FALSE : VARIANT_TRUE;
		else if ((v = value_of(p, L"Dir")))
			o->direction = lstrcmpW(v, L"In") ? DIRECTION_OUT : DIRECTION_IN;
		else if ((v = value_of(p, L"Protocol")))
			o->protocol = number(v);
		else if ((v = value_of(p, L"LPort")))
			put_text(o->ports, v);
		else if ((v = value_of(p, L"Name")))
			put_text(o->name, v);
		else if ((v = value_of(p, L"Desc")))
			put_text(o->description, v);
	}
}

static HRESULT open_rules(HKEY *key)
{
	return HRESULT_FROM_WIN32(RegCreateKeyExW(HKEY_LOCAL_MACHINE, rules_key, 0, NULL, 0, KEY_ALL_ACCESS, NULL, key, NULL));
}

/* find_rule returns a rule of that name, and the registry value that has it. */
static HRESULT find_rule(HKEY key, BSTR name, struct object **out, WCHAR *value)
{
	HRESULT hr = HRESULT_FROM_WIN32(ERROR_FILE_NOT_FOUND);
	WCHAR *line = HeapAlloc(GetProcessHeap(), 0, LINE * sizeof *line);
	struct object *rule = NULL;
	DWORD i, size, length;

	*out = NULL;
	if (!line)
		return E_OUTOFMEMORY;
	for (i = 0;; i++) {
		size = (LINE - 1) * sizeof *line;
		length = MAX_TEXT;
		if (RegEnumValueW(key, i, value, &length, NULL, NULL, (BYTE *)line, &size))
			break;
		line[size / sizeof *line] = 0;
		if (FAILED(make(&iid_rule, NULL, &rule))) {
			hr = E_OUTOFMEMORY;
			break;
		}
		parse_rule(rule, line);
		if (!lstrcmpiW(rule->name, name ? name : L"")) {
			*out = rule;
			hr = S_OK;
			break;
		}
		release(rule);
	}
	HeapFree(GetProcessHeap(), 0, line);
	return hr;
}

/* INetFwRules */

static HRESULT WINAPI rules_count(struct object *o, LONG *out)
{
	DWORD count;
	HKEY key;
	HRESULT hr = open_rules(&key);

	if (FAILED(hr))
		return hr;
	hr = HRESULT_FROM_WIN32(RegQueryInfoKeyW(key, NULL, NULL, NULL, NULL, NULL, NULL, &count, NULL, NULL, NULL, NULL));
	RegCloseKey(key);
	*out = count;
	return hr;
}

static HRESULT WINAPI rules_item(struct object *o, BSTR name, struct object **out)
{
	WCHAR value[MAX_TEXT];
	HKEY key;
	HRESULT hr = open_rules(&key);

	if (FAILED(hr))
		return hr;
	hr = find_rule(key, name, out, value);
	RegCloseKey(key);
	return hr;
}

static HRESULT WINAPI rules_remove(struct object *o, BSTR name)
{
	struct object *rule;
	WCHAR value[MAX_TEXT];
	HKEY key;
	HRESULT hr = open_rules(&key);

	if (FAILED(hr))
		return hr;
	/* That there is none is no error. */
	if (SUCCEEDED(find_rule(key, name, &rule, value))) {
		release(rule);
		RegDeleteValueW(key, value);
		RegFlushKey(key);
	}
	RegCloseKey(key);
	return S_OK;
}

/* A rule has a name that nobody else's has: {GUID}. */
static void new_value(WCHAR *value)
{
	static const char form[] = "{xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx}";
	BYTE random[sizeof form];
	int i;

	SystemFunction036(random, sizeof random);
	for (i = 0; form[i]; i++)
		value[i] = form[i] == 'x' ? L"0123456789ABCDEF"[random[i] % 16] : form[i];
	value[i] = 0;
}

static HRESULT WINAPI rules_add(struct object *o, struct object *rule)
{
	WCHAR *line, value[64];
	HKEY key;
	HRESULT hr;

	if (!rule || !*rule->name)
		return E_INVALIDARG;
	line = HeapAlloc(GetProcessHeap(), 0, LINE * sizeof *line);
	if (!line)
		return E_OUTOFMEMORY;
	hr = format_rule(rule, line) ? open_rules(&key) : E_INVALIDARG;
	if (SUCCEEDED(hr)) {
		new_value(value);
		hr = HRESULT_FROM_WIN32(RegSetValueExW(key, value, 0, REG_SZ, (BYTE *)line, (lstrlenW(line) + 1) * sizeof *line));
		RegFlushKey(key);
		RegCloseKey(key);
	}
	HeapFree(GetProcessHeap(), 0, line);
	return hr;
}

/* INetFwPolicy2 */

static HRESULT WINAPI policy_rules(struct object *o, struct object **out) { return make(&iid_rules, NULL, out); }

/* IClassFactory */

static HRESULT WINAPI create_instance(struct object *o, IUnknown *outer, REFIID iid, void **out)
{
	struct object *made;
	HRESULT hr;

	*out = NULL;
	if (outer)
		return CLASS_E_NOAGGREGATION;
	hr = make(same_guid(o->class, &clsid_rule) ? &iid_rule : &iid_policy2, NULL, &made);
	if (FAILED(hr))
		return hr;
	hr = query_interface(made, iid, out);
	release(made);
	return hr;
}

static HRESULT WINAPI lock_server(struct object *o, BOOL lock) { return S_OK; }

/* Methods by their places in the interfaces. The first three are those of IUnknown, the next
   four those of IDispatch. */
#define NONE not_implemented
#define DISPATCH query_interface, add_ref, release, NONE, NONE, NONE, NONE

static const void *const factory_methods[] = {query_interface, add_ref, release, create_instance, lock_server};
static const void *const policy_methods[] = {
	DISPATCH, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, policy_rules,
	NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE,
};
static const void *const rules_methods[] = {DISPATCH, rules_count, rules_add, rules_remove, rules_item, NONE};
static const void *const rule_methods[] = {
	DISPATCH, get_name, put_name, get_description, put_description,
	NONE, NONE, /* application name */
	NONE, NONE, /* service name */
	get_protocol, put_protocol, get_ports, put_ports,
	NONE, NONE, /* remote ports */
	NONE, NONE, /* local addresses */
	NONE, NONE, /* remote addresses */
	NONE, NONE, /* ICMP types and codes */
	get_direction, put_direction,
	NONE, NONE, /* interfaces */
	NONE, NONE, /* interface types */
	get_enabled, put_enabled,
	NONE, NONE, /* grouping */
	get_profiles, put_profiles,
	NONE, NONE, /* edge traversal */
	get_action, put_action,
};

/* make returns a new object. A rule is as Windows makes it: all protocols, inwards, off. */
static HRESULT make(const GUID *iid, const GUID *class, struct object **out)
{
	struct object *o = HeapAlloc(GetProcessHeap(), HEAP_ZERO_MEMORY, sizeof *o);

	*out = o;
	if (!o)
		return E_OUTOFMEMORY;
	o->iid = iid;
	o->class = class;
	o->references = 1;
	o->methods = iid == &iid_rule ? rule_methods : iid == &iid_rules ? rules_methods : iid == &iid_policy2 ? policy_methods : factory_methods;
	o->protocol = PROTOCOL_ANY;
	o->direction = DIRECTION_IN;
	o->action = ACTION_ALLOW;
	o->profiles = PROFILES_ALL;
	return S_OK;
}

EXPORT HRESULT WINAPI DllGetClassObject(REFCLSID class, REFIID iid, LPVOID *out)
{
	const GUID *known = same_guid(class, &clsid_rule) ? &clsid_rule : same_guid(class, &clsid_policy2) ? &clsid_policy2 : NULL;
	struct object *factory;
	HRESULT hr;

	*out = NULL;
	if (!known)
		return CLASS_E_CLASSNOTAVAILABLE;
	hr = make(&iid_class_factory, known, &factory);
	if (FAILED(hr))
		return hr;
	hr = query_interface(factory, iid, out);
	release(factory);
	return hr;
}

/* The library stays: nobody counts its objects. */
EXPORT HRESULT WINAPI DllCanUnloadNow(void) { return S_FALSE; }

BOOL WINAPI DllMainCRTStartup(HINSTANCE instance, DWORD reason, LPVOID reserved) { return TRUE; }
