// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"fmt"
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/version"
)

// strictly has a server refuse fields that it does not know. One of an earlier release would leave them out and do the rest: restart a host
// without the updates that somebody wants installed.
const strictly = metav1.FieldValidationStrict

// strictError begins what a server of k8s.io/apiserver says of fields that it does not know.
const strictError = "strict decoding error: "

// unknownField matches the name of a field in that.
var unknownField = regexp.MustCompile(`unknown field ("[^"]+")`)

// describeUnknown is what is said when a server refuses a request because it does not know fields of it, in place of its message, which may
// have the whole object. Empty: that is not what the message says.
func describeUnknown(message string) string {
	at := strings.LastIndex(message, strictError)
	if at < 0 {
		return ""
	}
	var fields []string
	for _, match := range unknownField.FindAllStringSubmatch(message[at:], -1) {
		fields = append(fields, match[1])
	}
	if len(fields) == 0 {
		return ""
	}
	return fmt.Sprintf("windows-apiserver does not know %s, so nothing was done: it is of an earlier release than kubectl-windows %s. Leave out the flag, use the kubectl-windows of its release, or upgrade windows-apiserver",
		strings.Join(fields, ", "), version.Version)
}
