"""Fifty tools as the servers of large code hosts have them: long texts, and the same fields again and again."""

from __future__ import annotations

from typing import Any

FIELDS: dict[str, dict[str, Any]] = {
    "owner": {"type": "string", "description": "The account that owns the repository: a user or an organisation"},
    "repo": {"type": "string", "description": "The name of the repository, without its owner"},
    "number": {"type": "integer", "minimum": 1, "description": "The number of the issue or pull request"},
    "title": {"type": "string", "description": "The title, on one line"},
    "body": {"type": "string", "description": "The text, in Markdown; mentions notify those who are mentioned"},
    "state": {"type": "string", "enum": ["open", "closed", "all"], "description": "Only those in this state"},
    "labels": {"type": "array", "items": {"type": "string"}, "description": "The names of labels; each must exist"},
    "assignees": {"type": "array", "items": {"type": "string"}, "description": "The users who shall take care of it"},
    "milestone": {"type": "integer", "description": "The number of the milestone that it belongs to"},
    "page": {"type": "integer", "minimum": 1, "default": 1, "description": "The page of results, counted from 1"},
    "perPage": {"type": "integer", "minimum": 1, "maximum": 100, "description": "Results on a page, 30 unless given"},
    "sort": {"type": "string", "enum": ["created", "updated", "comments"], "description": "What results are sorted by"},
    "direction": {"type": "string", "enum": ["asc", "desc"], "description": "Which results come first"},
    "since": {
        "type": "string",
        "format": "date-time",
        "description": "Only what changed after this moment, in ISO 8601",
    },
    "query": {"type": "string", "description": "What to look for, with the qualifiers of the search language"},
    "branch": {"type": "string", "description": "The name of the branch, without refs/heads/"},
    "ref": {"type": "string", "description": "A branch, a tag or a commit; the default branch unless given"},
    "sha": {"type": "string", "pattern": "^[0-9a-f]{7,40}$", "description": "The commit, at least seven digits of it"},
    "path": {"type": "string", "description": "The path of the file or folder, from the root of the repository"},
    "content": {"type": "string", "description": "What the file shall hold, as text; it is encoded for you"},
    "message": {"type": "string", "description": "The message of the commit"},
    "files": {
        "type": "array",
        "description": "The files to write in one commit, each with its path and its content",
        "items": {
            "type": "object",
            "required": ["path", "content"],
            "properties": {
                "path": {"type": "string", "description": "The path of the file, from the root of the repository"},
                "content": {"type": "string", "description": "What the file shall hold"},
            },
        },
    },
    "base": {"type": "string", "description": "The branch into which the changes shall go"},
    "head": {"type": "string", "description": "The branch with the changes; owner:branch when it is in a fork"},
    "draft": {"type": "boolean", "description": "Whether it is not yet to be reviewed"},
    "method": {
        "type": "string",
        "enum": ["merge", "squash", "rebase"],
        "description": "How the commits are taken over",
    },
    "event": {
        "type": "string",
        "enum": ["approve", "request_changes", "comment"],
        "description": "What the review comes to; it stays pending, and is seen by nobody else, until one is given",
    },
    "comments": {
        "type": "array",
        "description": "Remarks on lines of the changes, sent together with the review",
        "items": {
            "type": "object",
            "required": ["path", "line", "body"],
            "properties": {
                "path": {"type": "string", "description": "The path of the changed file"},
                "line": {"type": "integer", "description": "The line in the file as it is after the change"},
                "body": {"type": "string", "description": "The remark, in Markdown"},
            },
        },
    },
    "commentId": {"type": "integer", "description": "The id of the comment"},
    "workflow": {"type": "string", "description": "The id of the workflow, or the name of its file"},
    "runId": {"type": "integer", "description": "The id of the run"},
    "inputs": {
        "type": "object",
        "additionalProperties": {"type": "string"},
        "description": "The inputs of the workflow",
    },
    "tag": {"type": "string", "description": "The name of the tag"},
    "name": {"type": "string", "description": "The name that it shall have"},
    "description": {"type": "string", "description": "What it is for, in a sentence or two"},
    "private": {"type": "boolean", "description": "Whether only members may see it"},
    "prerelease": {"type": "boolean", "description": "Whether it is not yet meant for production"},
    "organization": {"type": "string", "description": "The organisation; your own account unless given"},
    "color": {"type": "string", "pattern": "^[0-9a-f]{6}$", "description": "Six hexadecimal digits, without #"},
    "dueOn": {"type": "string", "format": "date", "description": "The day by which it should be done"},
    "severity": {"type": "string", "enum": ["low", "medium", "high", "critical"], "description": "Only this severity"},
    "username": {"type": "string", "description": "The login of the user"},
    "threadId": {"type": "string", "description": "The id of the thread, as list_notifications tells it"},
    "reason": {"type": "string", "description": "Why, for those who ask later; kept with the alert"},
    "tailLines": {"type": "integer", "default": 500, "description": "How many lines of the end of each log to return"},
}

READS, ADDS, DESTROYS = (
    {"readOnlyHint": True, "openWorldHint": True},
    {"readOnlyHint": False, "destructiveHint": False, "openWorldHint": True},
    {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True},
)
PAGES = "page perPage"
WHERE = "owner* repo*"

ROWS: list[tuple[str, dict[str, Any], str, str]] = [
    ("list_issues", READS, f"{WHERE} state labels since sort direction {PAGES}",
     "List the issues of a repository. Pull requests are left out, though the host counts them as issues; use "
     "list_pull_requests for them. To look through many repositories at once use search_issues."),
    ("get_issue", READS, f"{WHERE} number*",
     "Get one issue with its text, labels, assignees and milestone. Comments are not in it: see list_issue_comments."),
    ("create_issue", ADDS, f"{WHERE} title* body labels assignees milestone",
     "Open a new issue. Look with search_issues first whether there is one about the same thing. Labels and "
     "assignees that do not exist are an error, and nothing is created then."),
    ("update_issue", DESTROYS, f"{WHERE} number* title body state labels assignees milestone",
     "Change an issue. Only the fields that are given are changed, but labels and assignees are replaced as a whole: "
     "read the issue first if you only want to add one."),
    ("list_issue_comments", READS, f"{WHERE} number* since {PAGES}",
     "List the comments of an issue or pull request, oldest first. Remarks on lines of code are not among them."),
    ("add_issue_comment", ADDS, f"{WHERE} number* body*",
     "Add a comment to an issue or pull request. Everybody who follows it is notified, so prefer one to three."),
    ("delete_issue_comment", DESTROYS, f"{WHERE} commentId*",
     "Delete a comment of an issue or pull request. It cannot be brought back; you need to be its author or an admin."),
    ("search_issues", READS, f"query* owner repo sort direction {PAGES}",
     "Search issues in all repositories that you can see. The query takes qualifiers such as is:open, label:bug or "
     "author:somebody; owner and repo narrow it down to one repository. At most 1,000 results can be paged through."),
    ("lock_issue", DESTROYS, f"{WHERE} number* reason",
     "Lock the conversation of an issue, so that only collaborators can comment. Say why: the reason is shown to all."),
    ("list_labels", READS, f"{WHERE} {PAGES}", "List the labels of a repository, with colours and meanings."),
    ("create_label", ADDS, f"{WHERE} name* color description",
     "Create a label in a repository. Names are compared without regard to case; one that exists already is an error."),
    ("delete_label", DESTROYS, f"{WHERE} name*",
     "Delete a label. It is taken off all issues and pull requests that have it, which cannot be undone."),
    ("list_milestones", READS, f"{WHERE} state sort direction {PAGES}",
     "List the milestones of a repository with the number of open and closed issues in each."),
    ("create_milestone", ADDS, f"{WHERE} title* description dueOn",
     "Create a milestone, to which issues and pull requests can then be assigned by its number."),
    ("list_pull_requests", READS, f"{WHERE} state head base sort direction {PAGES}",
     "List the pull requests of a repository. With head, only those that come from that branch; give it as "
     "owner:branch. If you look for those of an author use search_pull_requests, which is made for that."),
    ("get_pull_request", READS, f"{WHERE} number*",
     "Get one pull request: its text, its branches, whether it can be merged, and the numbers of commits and changes."),
    ("create_pull_request", ADDS, f"{WHERE} title* head* base* body draft",
     "Open a pull request for a branch that is already pushed. Use a draft for work that nobody should review yet. If "
     "there is one for the same branches already, that is an error and its number is told."),
    ("update_pull_request", DESTROYS, f"{WHERE} number* title body state base draft",
     "Change a pull request: its title, its text, its state, the branch into which it goes, or whether it is a draft."),
    ("update_pull_request_branch", ADDS, f"{WHERE} number* sha",
     "Bring the branch of a pull request up to date with its base by merging the base into it."),
    ("merge_pull_request", DESTROYS, f"{WHERE} number* method title message sha",
     "Merge a pull request into its base. It fails when checks that are required have not passed or reviews are "
     "missing. Give sha, so that nothing is merged that was pushed after you looked."),
    ("list_pull_request_files", READS, f"{WHERE} number* {PAGES}",
     "List the files that a pull request changes, each with its patch. Patches of large files are left out."),
    ("list_pull_request_commits", READS, f"{WHERE} number* {PAGES}", "List the commits of a pull request, in order."),
    ("get_pull_request_status", READS, f"{WHERE} number*",
     "Get the checks of the last commit of a pull request: which have passed, which failed and which still run."),
    ("list_reviews", READS, f"{WHERE} number* {PAGES}",
     "List the reviews of a pull request with what they came to. Pending ones are only shown to their authors."),
    ("create_review", ADDS, f"{WHERE} number* body event comments sha",
     "Review a pull request. Without an event the review stays pending, and can be completed by submit_review. Lines "
     "in comments are those of the file after the change, and must be in the patch."),
    ("submit_review", ADDS, f"{WHERE} number* event* body",
     "Submit your pending review of a pull request. Requesting changes blocks its merge until you approve."),
    ("request_reviewers", ADDS, f"{WHERE} number* assignees*",
     "Ask users for a review of a pull request. They must be able to read the repository, and are notified."),
    ("search_pull_requests", READS, f"query* owner repo sort direction {PAGES}",
     "Search pull requests in all repositories that you can see, with the same qualifiers as search_issues has."),
    ("get_file", READS, f"{WHERE} path* ref",
     "Get a file as text, or what is in a folder. Files over one megabyte are returned as a link to download them."),
    ("write_file", DESTROYS, f"{WHERE} path* content* message* branch* sha",
     "Create a file or write it anew in one commit. To write over a file that exists, give the sha of what you read; "
     "when somebody changed it since, nothing is written. For several files use push_files."),
    ("delete_file", DESTROYS, f"{WHERE} path* message* branch* sha*",
     "Delete a file in a commit on a branch. The history keeps it, so that it can be restored by write_file."),
    ("push_files", DESTROYS, f"{WHERE} branch* files* message*",
     "Write several files in one commit on a branch, which must exist. Files that are not named stay as they are."),
    ("list_tree", READS, f"{WHERE} ref path",
     "List all files of a repository or of a folder in it, at all depths. Very large repositories are cut off."),
    ("search_code", READS, f"query* {PAGES}",
     "Search the code of all repositories that you can see. Exact words find more than questions do: look for names of "
     "functions and messages. Qualifiers such as language:go, path:src and repo:owner/name narrow it down."),
    ("list_branches", READS, f"{WHERE} {PAGES}", "List the branches of a repository with the last commit of each."),
    ("create_branch", ADDS, f"{WHERE} branch* ref",
     "Create a branch that begins at another branch, a tag or a commit, or at the default branch when none is given."),
    ("list_commits", READS, f"{WHERE} ref path since {PAGES}",
     "List the commits of a branch, newest first. With path only those that changed that file or folder."),
    ("get_commit", READS, f"{WHERE} sha*", "Get a commit: who made it and when, its message and its patch."),
    ("list_tags", READS, f"{WHERE} {PAGES}", "List the tags of a repository, newest first."),
    ("list_releases", READS, f"{WHERE} {PAGES}", "List the releases of a repository with their notes and files."),
    ("create_release", ADDS, f"{WHERE} tag* name body ref draft prerelease",
     "Publish a release. The tag is created at ref when it does not exist. A draft is seen by nobody but "
     "collaborators, and its tag is created once it is published."),
    ("list_workflow_runs", READS, f"{WHERE} workflow branch event state {PAGES}",
     "List the runs of workflows, newest first, of one workflow or of all. To see why one failed, use get_run_logs."),
    ("run_workflow", ADDS, f"{WHERE} workflow* ref* inputs",
     "Start a workflow by hand. It must allow that, and must be on the default branch; inputs that it requires must be "
     "given. The run appears in list_workflow_runs after some seconds."),
    ("cancel_run", DESTROYS, f"{WHERE} runId*", "Cancel a run that has not ended. Steps that are running are killed."),
    ("get_run_logs", READS, f"{WHERE} runId* tailLines",
     "Get the end of the logs of the jobs of a run that failed. Logs can be long: begin with few lines."),
    ("create_repository", ADDS, "name* description private organization",
     "Create a repository with a first commit, in your own account or in an organisation where you may."),
    ("fork_repository", ADDS, f"{WHERE} organization",
     "Fork a repository into your own account or an organisation. It takes a while until all commits are there."),
    ("list_security_alerts", READS, f"{WHERE} state severity ref {PAGES}",
     "List what the scanners found in a repository: code, dependencies and secrets. You need a right for it."),
    ("dismiss_security_alert", DESTROYS, f"{WHERE} number* reason*",
     "Dismiss an alert of a scanner. The reason is kept, and shown to those who review the repository."),
    ("list_notifications", READS, f"owner repo since {PAGES}",
     "List your notifications that are not read, of one repository or of all, newest first."),
]  # fmt: skip


def tool(name: str, hints: dict[str, Any], fields: str, description: str) -> dict[str, Any]:
    """Return a tool as a server lists it; a star marks the fields that are required."""
    names = fields.split()
    return {
        "name": name,
        "description": description,
        "inputSchema": {
            "type": "object",
            "properties": {one.rstrip("*"): FIELDS[one.rstrip("*")] for one in names},
            "required": [one.rstrip("*") for one in names if one.endswith("*")],
        },
        "annotations": {"title": name.replace("_", " ").capitalize(), **hints},
    }


TOOLS = [tool(name, hints, fields, description) for name, hints, fields, description in ROWS]
