// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package main

// notTakenOver is why the cases about what WMCO records on its nodes are missing.
const notTakenOver = "nodes of WMCO are adopted as they are, and no program reads this of them"

// missing says by kind, or by kind and member of its file, which behavior no program of
// this project has. Nothing is computed for these cases: a result that only this command
// can produce says nothing about the product.
var missing = map[string]string{
	"log-rotation":          "pools say how logs are rotated; no program reads variables of the environment for it",
	"metadata-patch":        notTakenOver,
	"node-username":         "no program looks for the entry that a Node is from",
	"services-cm-graph":     "services are published; no program reads them",
	"services-cm-structure": "services are published; no program reads them",
	"sha256sum-file":        "payloads have a manifest; no program reads the output of sha256sum",
	"username-annotation":   notTakenOver,

	"csr-content/wicd":                               "no program approves certificates of WMCO's daemon",
	"controller-decisions/byohNodeStillWanted":       "no program looks for the entry that a Node is from",
	"controller-decisions/upgradeDecision":           notTakenOver,
	"platform-facts/gcpHostnameRule":                 "the agent cuts the name on the host, where it asks for it; pkg/agent tests it",
	"platform-facts/machineNameLimit":                "no program names Machines; what Windows cannot have as a name is said, and pkg/controller/source/machine tests it",
	"platform-facts/runtimeClassBuilds":              "no program makes RuntimeClasses",
	"wicd-variable-substitution/cleanupMerge":        notTakenOver,
	"wicd-variable-substitution/nodeVariables":       "services are published; no program reads them",
	"wicd-variable-substitution/powershellVariables": "scripts are published; no program runs them",
	"windows-layer/logFileSizeMB":                    "no program converts sizes of logs to megabytes",
	"windows-layer/requiredServicesInOrder":          notTakenOver,
}

// missingMember is the result of a member of a file whose behavior is missing.
func missingMember(kind, member string) (r result, isMissing bool) {
	reason, isMissing := missing[kind+"/"+member]
	return result{ID: member, Missing: reason}, isMissing
}
