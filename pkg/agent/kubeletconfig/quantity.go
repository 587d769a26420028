// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package kubeletconfig

import (
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

// quantityPattern has the number, without an exponent that nobody could want to be computed, and the suffix.
var quantityPattern = regexp.MustCompile(`^([+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30}))([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2})?$`)

// multipliers are the bases and powers that suffixes stand for.
var multipliers = map[string]struct{ base, power int64 }{
	"n": {1000, -3}, "u": {1000, -2}, "m": {1000, -1}, "": {1000, 0},
	"k": {1000, 1}, "M": {1000, 2}, "G": {1000, 3}, "T": {1000, 4}, "P": {1000, 5}, "E": {1000, 6},
	"Ki": {1024, 1}, "Mi": {1024, 2}, "Gi": {1024, 3}, "Ti": {1024, 4}, "Pi": {1024, 5}, "Ei": {1024, 6},
}

// quantity reads a quantity of Kubernetes, such as 500m, 2Gi or 1e3. The agent has no library for it.
func quantity(text string) (*big.Rat, error) {
	parts := quantityPattern.FindStringSubmatch(text)
	if parts == nil {
		return nil, fmt.Errorf("%q is no quantity", text)
	}
	number, suffix := parts[1], parts[2]
	of, known := multipliers[suffix]
	if !known { // it is an exponent
		number += suffix
	}
	value, ok := new(big.Rat).SetString(number)
	if !ok {
		return nil, fmt.Errorf("%q is no quantity", text)
	}
	for range max(of.power, -of.power) {
		if of.power > 0 {
			value.Mul(value, big.NewRat(of.base, 1))
		} else {
			value.Mul(value, big.NewRat(1, of.base))
		}
	}
	return value, nil
}

// sum adds quantities; an empty one is none.
func sum(quantities ...string) (*big.Rat, error) {
	all := new(big.Rat)
	for _, text := range quantities {
		if text == "" {
			continue
		}
		value, err := quantity(text)
		if err != nil {
			return nil, err
		}
		all.Add(all, value)
	}
	return all, nil
}

// threshold is from which value of a signal on pods are evicted, a quantity or a percentage. Empty: they are not.
type threshold string

// none says whether pods are never evicted by it. The kubelet ignores both percentages.
func (t threshold) none() bool { return t == "" || t == "0%" || t == "100%" }

// above says whether a threshold is reached earlier than another one. A percentage and a quantity cannot be compared,
// nor can what is neither: that may be earlier.
func (t threshold) above(other threshold) bool {
	switch {
	case t == other || t.none():
		return false
	case other.none():
		return true
	}
	value, isPercentage, err := t.value()
	otherValue, otherIsPercentage, otherErr := other.value()
	return err != nil || otherErr != nil || isPercentage != otherIsPercentage || value.Cmp(otherValue) > 0
}

func (t threshold) value() (value *big.Rat, percentage bool, err error) {
	number, percentage := strings.CutSuffix(string(t), "%")
	if !percentage {
		value, err = quantity(number)
		return value, false, err
	}
	// As the kubelet does.
	parsed, err := strconv.ParseFloat(number, 32)
	if err != nil {
		return nil, true, err
	}
	if value = new(big.Rat).SetFloat64(parsed); value == nil {
		return nil, true, fmt.Errorf("%q is no percentage", t)
	}
	return value, true, nil
}
