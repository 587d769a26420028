// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package configmap

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// ResolveFunc says what is known of a DNS name. It MUST NOT BLOCK: one slow name
// would hold up all the others.
type ResolveFunc func(name string) Resolution

// Parse reads the data of the ConfigMap: entries that can be used, those whose
// instance is oldest first, and what is wrong with the others in the order of
// their keys. Made says by key when the instance of an entry was made; entries that
// have none yet are missing in it. A name that does not resolve is no problem here:
// the error is in the Resolution of the entry.
func Parse(data map[string]string, made map[string]time.Time, resolve ResolveFunc) ([]Entry, []Problem) {
	var entries []Entry
	var problems []Problem
	for _, key := range slices.Sorted(maps.Keys(data)) {
		entry, err := parseEntry(key, data[key])
		if err != nil {
			problems = append(problems, Problem{Key: key, Message: err.Error()})
			continue
		}
		if addr, ok := entry.ip(); ok {
			entry.Resolution.Addresses = []netip.Addr{addr}
		} else {
			entry.Resolution = resolve(entry.Address)
		}
		entries = append(entries, entry)
	}
	slices.SortFunc(entries, func(a, b Entry) int { return compareClaims(&a, &b, made) })
	entries, duplicates := dropDuplicates(entries)
	return entries, sortProblems(append(problems, duplicates...))
}

// sortProblems sorts in place and returns the result.
func sortProblems(problems []Problem) []Problem {
	slices.SortFunc(problems, func(a, b Problem) int { return strings.Compare(a.Key, b.Key) })
	return problems
}

// compareClaims orders entries by which counts when two of them are one host.
func compareClaims(a, b *Entry, made map[string]time.Time) int {
	madeA, okA := made[a.Key]
	madeB, okB := made[b.Key]
	_, ipA := a.ip()
	_, ipB := b.ip()
	return cmp.Or(
		firstIf(okA, okB),
		madeA.Compare(madeB),
		firstIf(ipA, ipB),
		strings.Compare(a.Key, b.Key),
	)
}

// firstIf orders what a is true of before what b is false of.
func firstIf(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

// dropDuplicates splits off entries whose name or host an earlier entry has already.
func dropDuplicates(entries []Entry) (kept []Entry, duplicates []Problem) {
	names := map[string]string{}         // key of the entry by instance name
	hosts := map[netip.AddrPort]string{} // key of the entry by where it leads
	for _, entry := range entries {
		if other, taken := names[entry.Name]; taken {
			message := fmt.Sprintf("would have the same WindowsInstance %s as entry %s", entry.Name, other)
			duplicates = append(duplicates, Problem{Key: entry.Key, Message: message})
			continue
		}
		host, other, taken := findHost(hosts, &entry)
		if taken {
			message := fmt.Sprintf("is the same host as entry %s (%s): remove one of them", other, host)
			duplicates = append(duplicates, Problem{Key: entry.Key, Message: message})
			continue
		}
		names[entry.Name] = entry.Key
		for _, addr := range entry.Resolution.Addresses {
			hosts[netip.AddrPortFrom(addr.Unmap(), uint16(entry.Port))] = entry.Key
		}
		kept = append(kept, entry)
	}
	return kept, duplicates
}

func findHost(hosts map[netip.AddrPort]string, entry *Entry) (host netip.AddrPort, key string, found bool) {
	for _, addr := range entry.Resolution.Addresses {
		host = netip.AddrPortFrom(addr.Unmap(), uint16(entry.Port))
		if key, found = hosts[host]; found {
			return host, key, true
		}
	}
	return netip.AddrPort{}, "", false
}
