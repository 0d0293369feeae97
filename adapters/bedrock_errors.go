package adapters

import (
	"strings"

	"headway/core"
)

// awsStatuses are the statuses that AWS's words for an error stand for.
var awsStatuses = map[string]int{
	"validationexception": 400, "accessdeniedexception": 403, "unrecognizedclientexception": 403, "expiredtokenexception": 403,
	"invalidsignatureexception": 403, "resourcenotfoundexception": 404, "throttlingexception": 429, "servicequotaexceededexception": 429,
	"modelnotreadyexception": 429, "internalserverexception": 500, "internalfailure": 500, "modelerrorexception": 502,
	"modelstreamerrorexception": 502, "serviceunavailableexception": 503, "modeltimeoutexception": 504,
}

// awsFault deals with a message that is no event: what cannot be read, and an
// exception, which no client reads as it is.
func awsFault(f *core.Frame, a *core.Answer) core.Mark {
	if f.Name == core.BrokenFrame {
		f.Raw = nil
		return core.MarkBroken
	}
	kind, exception := strings.CutPrefix(f.Name, core.ExceptionFrame)
	if !exception {
		return 0
	}
	failed := awsError(0, kind, f.Data)
	a.Err, f.Raw = &failed, nil
	return core.MarkError
}

// awsError reads the body of an error; kind is AWS's word for it, where it came
// apart from the body. An answer's own status stands; an exception in a stream
// has one by its word.
func awsError(status int, kind string, body []byte) core.UpstreamError {
	var e struct {
		Type    string `json:"__type"`
		Message string `json:"message"` // or Message: encoding/json takes either
	}
	failed := core.UpstreamError{Status: status, Type: kind}
	if decode(body, &e) == nil {
		failed.Message = e.Message
		if kind == "" {
			failed.Type = e.Type[strings.LastIndexByte(e.Type, '#')+1:]
		}
	}
	if status == 0 {
		if failed.Status = awsStatuses[strings.ToLower(failed.Type)]; failed.Status == 0 {
			failed.Status = 502
		}
	}
	if strings.Contains(strings.ToLower(failed.Message), "input is too long") {
		failed.Code = "context_length_exceeded"
	}
	return failed
}
